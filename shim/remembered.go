package shim

import (
	"time"

	"github.com/psgrid/psg"
)

// Remembered is what the sink knows of Nomad from before this Watcher. What of it
// Nomad no longer has when it is first listed ended while nobody watched: no
// event tells of that, and no list.
type Remembered struct {
	Nodes     []psg.NodeID
	Workloads []psg.WorkloadID
	Allocs    []psg.AllocID // those that are not over
}

// nodes ends the remembered nodes that a full list does not have.
func (r *Remembered) nodes(listed map[string]bool) []psg.Delta {
	var deltas []psg.Delta
	for _, id := range r.Nodes {
		if !listed[string(id)] {
			deltas = append(deltas, psg.NodeGone{Node: id})
		}
	}
	return deltas
}

// allocs ends the remembered allocations that are not among the live ones, and
// then the workloads that a view of all jobs and allocations does not have.
func (r *Remembered) allocs(live map[string]bool, v *view, at time.Time) []psg.Delta {
	var deltas []psg.Delta
	for _, id := range r.Allocs {
		if !live[string(id)] {
			deltas = append(deltas, psg.Freed{
				Ask: psg.RequestID(id), State: psg.Released, Reason: "ended while no controller watched Nomad", At: at,
			})
		}
	}
	for _, id := range r.Workloads {
		if v.managedWorkload(id) == nil && v.foreign[id] == nil {
			deltas = append(deltas, psg.WorkloadGone{Workload: id})
		}
	}
	return deltas
}
