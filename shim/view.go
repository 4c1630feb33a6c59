package shim

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

// ManagedLabel is "false" on the workload of a group that Nomad places by
// itself: PSG counts what it holds and decides nothing about it.
const ManagedLabel = psg.ManagedLabel

// view is what a Watcher knows of a cluster. Its methods take what Nomad shows,
// in any order and any number of times, and return what is new in it. It does no
// I/O.
type view struct {
	region string
	only   map[string]bool // namespaces whose jobs may be managed; nil means all
	log    *slog.Logger
	nodes  map[string]uint64 // modify index
	jobs   map[jobKey]*jobView
	allocs map[string]*allocView
	// foreign are the groups with live allocations that Nomad placed by itself:
	// the workload of each is known for as long as there are any.
	foreign map[psg.WorkloadID]*foreignView
}

type foreignView struct {
	live      int  // allocations
	announced bool // the workload was handed on as foreign, at version
	version   uint64
}

type allocView struct {
	index    uint64
	workload psg.WorkloadID
	managed  bool
	over     bool
	repeated bool // its end was told once more
}

func newView(region string, log *slog.Logger) *view {
	return &view{
		region:  region,
		log:     log,
		nodes:   map[string]uint64{},
		jobs:    map[jobKey]*jobView{},
		allocs:  map[string]*allocView{},
		foreign: map[psg.WorkloadID]*foreignView{},
	}
}

// node takes a node as it is now.
func (v *view) node(n *api.Node) []psg.Delta {
	if known, ok := v.nodes[n.ID]; ok && n.ModifyIndex <= known {
		return nil
	}
	node, err := NodeFromAPI(n, v.region)
	if err != nil {
		v.log.Error("node cannot be read, and is not used", "node", n.ID, "err", err)
		return nil
	}
	v.nodes[n.ID] = n.ModifyIndex
	return []psg.Delta{psg.NodeChanged{Node: node}}
}

func (v *view) nodeGone(id string) []psg.Delta {
	if _, known := v.nodes[id]; !known {
		return nil
	}
	delete(v.nodes, id)
	return []psg.Delta{psg.NodeGone{Node: psg.NodeID(id)}}
}

// alloc takes an allocation as it is now. Its job, when there still is one, must
// have been taken before.
func (v *view) alloc(a *allocation) []psg.Delta {
	known := v.allocs[a.ID]
	if known != nil && (a.ModifyIndex <= known.index || known.over) {
		return nil
	}
	if known == nil {
		return v.newAlloc(a)
	}
	known.index = a.ModifyIndex
	switch {
	case a.over():
		return v.allocOver(a.ID, a.freed())
	case known.managed:
		return v.moved(a)
	}
	return nil
}

// endAgain tells the end of a managed allocation once more: its gate's ask may
// have been on its way to the controller when the end was told first, and would
// hold room for ever.
func (v *view) endAgain(a *allocation) []psg.Delta {
	known := v.allocs[a.ID]
	if known == nil || !known.managed || !known.over || known.repeated {
		return nil
	}
	known.repeated = true
	return []psg.Delta{a.freed()}
}

func (v *view) newAlloc(a *allocation) []psg.Delta {
	known := &allocView{index: a.ModifyIndex, workload: a.workload(), managed: v.manages(a)}
	switch {
	case known.managed:
		v.allocs[a.ID] = known
		if a.over() {
			return v.allocOver(a.ID, a.freed())
		}
		return v.moved(a)
	case a.over():
		return nil
	}
	v.allocs[a.ID] = known
	group := v.foreign[known.workload]
	if group == nil {
		group = new(foreignView)
		v.foreign[known.workload] = group
	}
	group.live++
	var deltas []psg.Delta
	w := v.managedWorkload(known.workload) // the allocation may be from before PSG managed the group
	if w == nil {
		w = v.foreignWorkload(known.workload)
		if !group.announced || group.version != w.Version {
			group.announced, group.version = true, w.Version
			deltas = append(deltas, psg.WorkloadChanged{Workload: *w})
		}
	}
	return append(deltas, psg.Placed{Placement: a.placement(*w)})
}

// moved says that a managed allocation runs, or that Nomad stops it. It repeats with
// every change that Nomad reports, because the ask may have been granted after its
// tasks were seen running: run mode waits for its grant within a task that Nomad
// counts as started.
func (v *view) moved(a *allocation) []psg.Delta {
	if a.stops() {
		why := "Nomad stops it"
		if a.DesiredDescription != "" {
			why += ": " + a.DesiredDescription
		}
		return []psg.Delta{psg.Moved{Ask: psg.RequestID(a.ID), State: psg.Ending, Reason: why, At: time.Unix(0, a.ModifyTime).UTC()}}
	}
	if !a.running(v.group(a.job(), a.TaskGroup).mains) {
		return nil
	}
	return []psg.Delta{psg.Moved{Ask: psg.RequestID(a.ID), State: psg.Running, At: time.Unix(0, a.ModifyTime).UTC()}}
}

// allocOver ends a known allocation. One that is managed is remembered, so that
// its end is told once, until Nomad forgets it too.
func (v *view) allocOver(id string, freed psg.Freed) []psg.Delta {
	known := v.allocs[id]
	known.over = true
	deltas := []psg.Delta{freed}
	if known.managed {
		return deltas
	}
	delete(v.allocs, id)
	group := v.foreign[known.workload]
	if group.live--; group.live > 0 {
		return deltas
	}
	delete(v.foreign, known.workload)
	if group.announced && v.managedWorkload(known.workload) == nil {
		deltas = append(deltas, psg.WorkloadGone{Workload: known.workload})
	}
	return deltas
}

// manages reports whether PSG places the allocation: its group is held, or the
// allocation has a psg task.
func (v *view) manages(a *allocation) bool {
	g := v.group(a.job(), a.TaskGroup)
	return g.held || a.hasTask(g.gates)
}

// foreignWorkload is the workload of a group that Nomad places by itself.
func (v *view) foreignWorkload(id psg.WorkloadID) *psg.Workload {
	w := psg.Workload{ID: id, Type: psg.Service, Tenant: psg.TenantID(id.Namespace), Kind: string(psg.Service)}
	if g := v.group(jobKey{id.Namespace, id.Job}, id.Group); g.workload != nil {
		w = *g.workload
	}
	w.Labels = overlay(w.Labels, map[string]string{ManagedLabel: "false"})
	return &w
}

// onlyNodes says what has become of nodes that a full list does not have.
func (v *view) onlyNodes(listed map[string]bool) []psg.Delta {
	var deltas []psg.Delta
	for _, id := range slices.Sorted(maps.Keys(v.nodes)) {
		if !listed[id] {
			deltas = append(deltas, v.nodeGone(id)...)
		}
	}
	return deltas
}

// onlyJobs is onlyNodes for jobs.
func (v *view) onlyJobs(listed map[jobKey]bool) []psg.Delta {
	var deltas []psg.Delta
	for _, key := range slices.SortedFunc(maps.Keys(v.jobs), jobKey.compare) {
		if !listed[key] {
			deltas = append(deltas, v.jobGone(key)...)
		}
	}
	return deltas
}

// onlyAllocs is onlyNodes for allocations, at a time.
func (v *view) onlyAllocs(listed map[string]bool, at time.Time) []psg.Delta {
	return v.forgotten(listed, at, func(*allocView) bool { return true })
}

// forgotten says what has become of those allocations among the known ones that
// Nomad no longer lists.
func (v *view) forgotten(listed map[string]bool, at time.Time, among func(*allocView) bool) []psg.Delta {
	var deltas []psg.Delta
	for _, id := range slices.Sorted(maps.Keys(v.allocs)) {
		if listed[id] || !among(v.allocs[id]) {
			continue
		}
		if !v.allocs[id].over {
			gone := psg.Freed{Ask: psg.RequestID(id), State: psg.Released, Reason: "Nomad no longer knows the allocation", At: at}
			deltas = append(deltas, v.allocOver(id, gone)...)
		}
		delete(v.allocs, id)
	}
	return deltas
}

// jobKey names a job.
type jobKey struct{ namespace, id string }

func (k jobKey) compare(other jobKey) int {
	return cmp.Or(cmp.Compare(k.namespace, other.namespace), cmp.Compare(k.id, other.id))
}
