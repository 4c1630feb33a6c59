package shim

import (
	"slices"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

// jobView is what a Watcher keeps of one job.
type jobView struct {
	index   uint64 // job modify index
	stopped bool
	groups  []groupView // in the job's order
}

// groupView is what a Watcher keeps of one group of a job.
type groupView struct {
	name     string
	held     bool          // waits under the hold constraint
	gates    []string      // its psg tasks
	mains    []string      // its main tasks
	workload *psg.Workload // nil when the job could not be translated
}

// managed reports whether PSG places the group's allocations.
func (g *groupView) managed() bool { return g.held || len(g.gates) > 0 }

// announced reports whether the group's workload was handed on as a managed one.
func (g *groupView) announced() bool { return g.managed() && g.workload != nil }

// knows reports whether the job was taken at this index or a later one.
func (v *view) knows(key jobKey, index uint64) bool {
	known := v.jobs[key]
	return known != nil && index <= known.index
}

func (v *view) group(key jobKey, name string) groupView {
	if job := v.jobs[key]; job != nil {
		for _, g := range job.groups {
			if g.name == name {
				return g
			}
		}
	}
	return groupView{}
}

// managedWorkload is the workload of a group whose job is handed on as managed
// now, else nil.
func (v *view) managedWorkload(id psg.WorkloadID) *psg.Workload {
	key := jobKey{id.Namespace, id.Job}
	if job := v.jobs[key]; job == nil || job.stopped {
		return nil
	}
	if g := v.group(key, id.Group); g.announced() {
		return g.workload
	}
	return nil
}

// job takes a job as it is now.
func (v *view) job(job *api.Job) []psg.Delta {
	next := v.read(job)
	key := jobKey{text(job.Namespace), text(job.ID)}
	if v.knows(key, next.index) {
		return nil
	}
	t, err := TranslateJob(job)
	for i := range next.groups {
		if err == nil {
			next.groups[i].workload = &t.Workloads[i]
		} else if next.groups[i].managed() {
			v.log.Error("job cannot be translated, its group is not placed", "namespace", key.namespace, "job", key.id, "group", next.groups[i].name, "err", err)
		}
	}
	deltas := v.replaced(key, next)
	v.jobs[key] = next
	return deltas
}

// replaced says what changes when a job becomes next.
func (v *view) replaced(key jobKey, next *jobView) []psg.Delta {
	var deltas []psg.Delta
	if before := v.jobs[key]; before != nil && !before.stopped {
		for _, g := range before.groups {
			kept := slices.ContainsFunc(next.groups, func(n groupView) bool { return n.name == g.name && n.announced() })
			if g.announced() && (next.stopped || !kept) {
				deltas = append(deltas, psg.WorkloadGone{Workload: g.workload.ID})
			}
		}
	}
	for _, g := range next.groups {
		if g.announced() && !next.stopped {
			deltas = append(deltas, psg.WorkloadChanged{Workload: *g.workload})
		}
	}
	return deltas
}

func (v *view) jobGone(key jobKey) []psg.Delta {
	if v.jobs[key] == nil {
		return nil
	}
	deltas := v.replaced(key, &jobView{stopped: true})
	delete(v.jobs, key)
	return deltas
}

// purged takes the last that is known of a job which Nomad has purged while
// allocations of it still end.
func (v *view) purged(job *api.Job) {
	key := jobKey{text(job.Namespace), text(job.ID)}
	if v.jobs[key] == nil {
		last := v.read(job)
		last.stopped = true
		v.jobs[key] = last
	}
}

// read finds what of a job PSG manages, which is nothing where it is not to.
func (v *view) read(job *api.Job) *jobView {
	found := readJob(job)
	if v.only != nil && !v.only[text(job.Namespace)] {
		for i := range found.groups {
			found.groups[i].held, found.groups[i].gates = false, nil
		}
	}
	return found
}

// readJob finds what of a job PSG manages. It takes any job, also one that
// cannot be translated.
func readJob(job *api.Job) *jobView {
	view := &jobView{stopped: job.Stop != nil && *job.Stop}
	if job.JobModifyIndex != nil {
		view.index = *job.JobModifyIndex
	}
	held := heldBy(job.Constraints)
	for _, g := range job.TaskGroups {
		group := groupView{name: text(g.Name), held: held || heldBy(g.Constraints)}
		for _, task := range g.Tasks {
			group.held = group.held || heldBy(task.Constraints)
			if task.Driver == Driver {
				group.gates = append(group.gates, task.Name)
			}
			if task.Lifecycle == nil {
				group.mains = append(group.mains, task.Name)
			}
		}
		view.groups = append(view.groups, group)
	}
	return view
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
