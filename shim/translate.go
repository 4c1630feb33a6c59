package shim

import (
	"fmt"
	"maps"
	"reflect"
	"strings"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

// Driver is the name of PSG's task driver in Nomad. A group with such a task is
// placed by PSG.
const Driver = "psg"

// Translation is a job as PSG sees it.
type Translation struct {
	Workloads []psg.Workload `json:"workloads"` // one for each task group, in the job's order
	Losses    []Loss         `json:"losses"`    // what the job says that Workloads do not carry
}

// Translate reads job JSON: a bare job, one wrapped as {"Job": …}, or what
// `nomad job run -output` writes. What the job leaves open gets Nomad's
// defaults; what only Nomad's server adds, such as Connect sidecars, is not
// there. Anything wrong is an error of type Problems, and nothing is returned
// beside it. Input may come from anyone.
func Translate(data []byte) (Translation, error) {
	doc, err := parse(data)
	if err != nil {
		return Translation{}, err
	}
	t, err := translate(doc.root, doc.job)
	if err != nil {
		return Translation{}, err
	}
	if doc.request != nil {
		rest := *doc.request
		rest.Job = nil
		t.Losses = append(t.Losses, requestLosses(rest)...)
	}
	t.Losses = append(t.Losses, doc.unknown...)
	return t, nil
}

// requestLosses lists what a registration says beside its job.
func requestLosses(request api.JobRegisterRequest) []Loss {
	var losses []Loss
	v := reflect.ValueOf(request)
	for _, f := range reflect.VisibleFields(v.Type()) {
		name, ok := jsonName(f)
		if ok && !empty(v.FieldByIndex(f.Index)) {
			losses = append(losses, Loss{name, "part of the registration, not of the job"})
		}
	}
	return losses
}

// TranslateJob is Translate for a job that Nomad's API client has read. The job
// is not changed. Its losses include what Nomad's server has filled in. What
// Steer has added is not seen: it is PSG's own.
func TranslateJob(job *api.Job) (Translation, error) { return translate("", job) }

func translate(root string, job *api.Job) (Translation, error) {
	if job == nil {
		return Translation{}, Problems{{root, "is null"}}
	}
	var problems Problems
	for _, path := range nulls(reflect.ValueOf(job)) {
		problems = append(problems, Problem{join(root, path), "is null"})
	}
	if err := problems.err(); err != nil {
		return Translation{}, err
	}
	shifts := shifting(job)
	job = Strip(job)
	canon := canonical(job)
	t := translator{root: root, job: canon, losses: jobLosses(root, job, canon)}
	workloads := t.workloads()
	if err := t.problems.err(); err != nil {
		return Translation{}, err
	}
	for i := range workloads {
		workloads[i].Shifting = shifts[workloads[i].ID.Group]
	}
	return Translation{Workloads: workloads, Losses: append([]Loss{}, t.losses...)}, nil
}

// translator turns one canonical job into workloads and collects what is wrong
// with it, so that a user sees all of it at once.
type translator struct {
	root     string
	job      *api.Job
	problems Problems
	losses   []Loss
	copies   int // entries repeated so far, see maxCopies
}

func (t *translator) fail(path, format string, args ...any) {
	t.problems = append(t.problems, Problem{path, fmt.Sprintf(format, args...)})
}

func (t *translator) require(ok bool, path, format string, args ...any) {
	if !ok {
		t.fail(path, format, args...)
	}
}

func (t *translator) lose(path, detail string) { t.losses = append(t.losses, Loss{path, detail}) }

// at is the path of a field of the job.
func (t *translator) at(name string) string { return field(t.root, name) }

const (
	maxName     = 1 << 10 // bytes
	maxCount    = 1e6
	maxPriority = 1<<15 - 1
)

// name checks a name that becomes part of an ID.
func (t *translator) name(path, name string) {
	switch {
	case name == "":
		t.fail(path, "is empty")
	case len(name) > maxName:
		t.fail(path, "%d bytes are more than %d", len(name), maxName)
	case strings.ContainsRune(name, 0):
		t.fail(path, "%s holds a null character", quote(name))
	}
}

// distinct checks that a name stands once in its list.
func (t *translator) distinct(seen map[string]bool, path, name string) {
	t.require(name == "" || !seen[name], path, "%s stands twice", quote(name))
	seen[name] = true
}

// in checks that a value is one of a few.
func (t *translator) in(path, value string, known ...string) {
	for _, one := range known {
		if value == one {
			return
		}
	}
	t.fail(path, "%s is not one of %s", quote(value), strings.Join(known, ", "))
}

func (t *translator) workloads() []psg.Workload {
	job := t.job
	t.name(t.at("ID"), *job.ID)
	t.name(t.at("Namespace"), *job.Namespace)
	t.in(t.at("Type"), *job.Type, api.JobTypeService, api.JobTypeBatch, api.JobTypeSystem, api.JobTypeSysbatch)
	t.require(1 <= *job.Priority && *job.Priority <= maxPriority, t.at("Priority"), "%d is outside 1..%d", *job.Priority, maxPriority)
	for i, dc := range job.Datacenters {
		t.require(dc != "", elem(t.at("Datacenters"), i), "is empty")
	}
	t.require(len(job.TaskGroups) > 0, t.at("TaskGroups"), "is empty: a job needs a task group")

	common := t.common()
	workloads := make([]psg.Workload, len(job.TaskGroups))
	seen := map[string]bool{}
	for i, group := range job.TaskGroups {
		path := elem(t.at("TaskGroups"), i)
		t.name(field(path, "Name"), *group.Name)
		t.distinct(seen, field(path, "Name"), *group.Name)
		workloads[i] = t.group(path, group, common)
	}
	return workloads
}

// common is what all workloads of the job share.
func (t *translator) common() psg.Workload {
	job := t.job
	w := psg.Workload{
		ID:            psg.WorkloadID{Namespace: *job.Namespace, Job: *job.ID},
		Version:       *job.JobModifyIndex,
		Region:        *job.Region,
		Type:          psg.Type(*job.Type),
		Priority:      *job.Priority,
		Meta:          job.Meta,
		Datacenters:   job.Datacenters,
		NodePool:      *job.NodePool,
		Constraints:   t.constraints(t.at("Constraints"), job.Constraints, psg.JobScope),
		Affinities:    t.affinities(t.at("Affinities"), job.Affinities, psg.JobScope),
		Spreads:       t.spreads(t.at("Spreads"), job.Spreads, psg.JobScope),
		Periodic:      t.periodic(t.at("Periodic"), job.Periodic),
		Parameterized: t.parameterized(t.at("ParameterizedJob"), job.ParameterizedJob),
		Parent:        *job.ParentID,
	}
	w.Held = heldBy(job.Constraints)
	return w
}

// maxCopies bounds how much of what stands once in a job is repeated in its
// workloads, in entries: a job with as many groups as meta would otherwise grow
// by its own square.
const maxCopies = 1e6

// spend counts entries that are about to be repeated and reports whether they
// may be.
func (t *translator) spend(path string, entries int) bool {
	before := t.copies
	t.copies += entries
	if before <= maxCopies && t.copies > maxCopies {
		t.fail(path, "meta, constraints, affinities and spreads of job and groups would be repeated more than %d times in groups and tasks", int(maxCopies))
	}
	return t.copies <= maxCopies
}

// overlay lays meta over that of the level above.
func (t *translator) overlay(path string, above, meta map[string]string) map[string]string {
	if len(meta) == 0 || !t.spend(path, len(above)) {
		return above
	}
	return overlay(above, meta)
}

// overlay merges two maps, the second winning; the result is nil when empty.
func overlay(above, over map[string]string) map[string]string {
	if len(above)+len(over) == 0 {
		return nil
	}
	merged := make(map[string]string, len(above)+len(over))
	maps.Copy(merged, above)
	maps.Copy(merged, over)
	return merged
}
