package shim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg/hclspec"
)

const (
	grantSource = "${NOMAD_ALLOC_DIR}/psg/grant.env" // where a gate writes what was granted
	grantDest   = "secrets/grant.env"
	// Time at the gate counts against Nomad's deadlines, which are 5 and 10
	// minutes when a job does not say.
	gatedHealthy  = 30 * time.Minute
	gatedProgress = time.Hour
)

// gated reports whether PSG places any group of the job.
func gated(job *api.Job) bool {
	return heldBy(present(job.Constraints)) || slices.ContainsFunc(job.TaskGroups, func(g *api.TaskGroup) bool {
		return g != nil && (heldBy(present(g.Constraints)) || slices.ContainsFunc(g.Tasks, func(t *api.Task) bool {
			return t != nil && (t.Driver == Driver || heldBy(present(t.Constraints)))
		}))
	})
}

// present leaves out nulls.
func present(constraints []*api.Constraint) []*api.Constraint {
	return slices.DeleteFunc(slices.Clone(constraints), func(c *api.Constraint) bool { return c == nil })
}

// isGate reports whether a task is a gate: it ends before the main tasks start.
func isGate(t *api.Task) bool {
	return t.Driver == Driver && t.Lifecycle != nil && t.Lifecycle.Hook == api.TaskLifecycleHookPrestart && !t.Lifecycle.Sidecar
}

// equip returns the job with what its gates need and the user has left open, and
// warnings for the user; the job itself is not changed. Each group and task must
// be there.
func equip(job *api.Job) (*api.Job, []string) {
	out, warnings := *job, []string(nil)
	out.TaskGroups = slices.Clone(job.TaskGroups)
	for i, g := range out.TaskGroups {
		if !slices.ContainsFunc(g.Tasks, isGate) {
			continue
		}
		group := *g
		group.Tasks = slices.Clone(g.Tasks)
		cards := slices.ContainsFunc(g.Tasks, asksForCards)
		for j, task := range group.Tasks {
			switch {
			case isGate(task):
				group.Tasks[j] = quiet(task)
			case task.Lifecycle == nil && task.Driver != Driver && cards:
				group.Tasks[j] = granted(task)
			case task.Lifecycle != nil && task.Lifecycle.Hook == api.TaskLifecycleHookPrestart:
				warnings = append(warnings, fmt.Sprintf("group %q: task %q is a prestart task beside a gate: Nomad starts it before PSG grants the group its place", text(g.Name), task.Name))
			}
		}
		more := patient(job, &group)
		warnings = append(warnings, more...)
		out.TaskGroups[i] = &group
	}
	return &out, warnings
}

// quiet is a gate without a log collector, which would cost 100 MB.
func quiet(task *api.Task) *api.Task {
	if task.LogConfig != nil {
		return task
	}
	out := *task
	out.LogConfig = &api.LogConfig{Disabled: new(true)}
	return &out
}

func asksForCards(task *api.Task) bool {
	if task == nil || !isGate(task) {
		return false
	}
	stanza, err := hclspec.DecodeStanza(task.Config)
	return err == nil && stanza.GPU != nil
}

// granted is a main task that gets the granted cards into its environment.
func granted(task *api.Task) *api.Task {
	has := slices.ContainsFunc(task.Templates, func(t *api.Template) bool {
		return t != nil && strings.HasSuffix(text(t.SourcePath), "/psg/grant.env")
	})
	if has {
		return task
	}
	out := *task
	out.Templates = append(slices.Clip(task.Templates), &api.Template{
		SourcePath: new(grantSource), DestPath: new(grantDest), Envvars: new(true), ChangeMode: new("noop"),
	})
	return &out
}

// patient gives a group's deployment time for its gates, where neither the group
// nor its job says how much; else it warns of less than Nomad's default.
func patient(job *api.Job, g *api.TaskGroup) []string {
	if kind := text(job.Type); kind != "" && kind != api.JobTypeService {
		return nil
	}
	var healthy, progress *time.Duration
	for _, u := range []*api.UpdateStrategy{job.Update, g.Update} {
		if u != nil && u.HealthyDeadline != nil {
			healthy = u.HealthyDeadline
		}
		if u != nil && u.ProgressDeadline != nil {
			progress = u.ProgressDeadline
		}
	}
	switch {
	case healthy == nil && progress == nil:
		update := api.UpdateStrategy{}
		if g.Update != nil {
			update = *g.Update
		}
		update.HealthyDeadline, update.ProgressDeadline = new(gatedHealthy), new(gatedProgress)
		g.Update = &update
	case healthy != nil && *healthy < gatedHealthy:
		return []string{fmt.Sprintf("group %q: time at the gate counts against its healthy_deadline of %v", text(g.Name), *healthy)}
	case healthy == nil:
		return []string{fmt.Sprintf("group %q: time at the gate counts against Nomad's healthy_deadline of 5m, since progress_deadline is set and it is not", text(g.Name))}
	}
	return nil
}

// withHold returns the job with the hold constraint on the groups named.
func withHold(job *api.Job, groups map[string]bool) *api.Job {
	out := *job
	out.TaskGroups = slices.Clone(job.TaskGroups)
	for i, g := range out.TaskGroups {
		if groups[text(g.Name)] && !heldBy(g.Constraints) {
			group := *g
			group.Constraints = append(slices.Clip(g.Constraints), api.NewConstraint(holdAttribute, "=", holdValue))
			out.TaskGroups[i] = &group
		}
	}
	return &out
}

// carry returns next with the steering and the hold that the groups named have
// in current. Both jobs are bare of them otherwise.
func carry(current, next *api.Job, groups map[string]bool) *api.Job {
	out := *next
	out.TaskGroups = slices.Clone(next.TaskGroups)
	for i, g := range out.TaskGroups {
		at := slices.IndexFunc(current.TaskGroups, func(c *api.TaskGroup) bool { return text(c.Name) == text(g.Name) })
		if at < 0 || !groups[text(g.Name)] {
			continue
		}
		from := current.TaskGroups[at]
		group := *g
		if (heldBy(current.Constraints) || heldBy(from.Constraints)) && !heldBy(g.Constraints) {
			group.Constraints = append(slices.Clip(group.Constraints), api.NewConstraint(holdAttribute, "=", holdValue))
		}
		if mark := marked(from); mark >= 0 {
			bare := stripped(from)
			group.Constraints = append(slices.Clip(group.Constraints), from.Constraints[mark])
			group.Affinities = append(slices.Clip(group.Affinities), from.Affinities[len(bare.Affinities):]...)
			group.Spreads = append(slices.Clip(group.Spreads), from.Spreads[len(bare.Spreads):]...)
		}
		out.TaskGroups[i] = &group
	}
	return &out
}
