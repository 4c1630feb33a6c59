package main

import (
	"fmt"
	"strings"

	"github.com/hashicorp/nomad/api"
)

// signs are what stands before a line of a difference.
var signs = map[string]string{"Added": "+", "Deleted": "-", "Edited": "+/-", "None": ""}

// showDiff prints what changes in a job; with all, what does not, too.
func showDiff(p *printer, job *api.JobDiff, all bool) {
	d := differ{p, all}
	d.line(0, job.Type, "Job: %q", job.ID)
	d.inside(1, job.Fields, job.Objects)
	for _, group := range job.TaskGroups {
		if group.Type == "None" && len(group.Updates) == 0 && !all {
			continue
		}
		var updates []string
		for _, what := range sortedKeys(group.Updates) {
			updates = append(updates, fmt.Sprintf("%d %s", group.Updates[what], what))
		}
		note := ""
		if len(updates) > 0 {
			note = " (" + strings.Join(updates, ", ") + ")"
		}
		d.line(0, group.Type, "Task Group: %q%s", group.Name, note)
		d.inside(1, group.Fields, group.Objects)
		for _, task := range group.Tasks {
			if task.Type == "None" && !all {
				continue
			}
			d.line(1, task.Type, "Task: %q%s", task.Name, noted(task.Annotations))
			d.inside(2, task.Fields, task.Objects)
		}
	}
}

type differ struct {
	p   *printer
	all bool
}

func (d differ) line(depth int, kind, format string, args ...any) {
	d.p.line("%-4s%s%s", signs[kind], strings.Repeat("  ", depth), fmt.Sprintf(format, args...))
}

func (d differ) inside(depth int, fields []*api.FieldDiff, objects []*api.ObjectDiff) {
	for _, f := range fields {
		switch {
		case f.Type == "None" && !d.all:
		case f.Type == "Edited":
			d.line(depth, f.Type, "%s: %q => %q%s", f.Name, f.Old, f.New, noted(f.Annotations))
		case f.Type == "Deleted":
			d.line(depth, f.Type, "%s: %q%s", f.Name, f.Old, noted(f.Annotations))
		default:
			d.line(depth, f.Type, "%s: %q%s", f.Name, f.New, noted(f.Annotations))
		}
	}
	for _, o := range objects {
		if o.Type == "None" && !d.all {
			continue
		}
		d.line(depth, o.Type, "%s {", o.Name)
		d.inside(depth+1, o.Fields, o.Objects)
		d.line(depth, "None", "}")
	}
}

func noted(annotations []string) string {
	if len(annotations) == 0 {
		return ""
	}
	return " (" + strings.Join(annotations, ", ") + ")"
}
