package ledger

import (
	"cmp"
	"slices"

	"github.com/psgrid/psg"
)

// Job returns the workloads of a job and where their asks stand, those that are
// over left out, each by ID. It looks at every ask there is.
func (s *State) Job(id psg.JobID) (workloads []psg.Workload, asks []psg.AskStatus) {
	for _, w := range s.workloads {
		if w.ID.JobID() == id {
			workloads = append(workloads, *w)
		}
	}
	for _, status := range s.asks {
		if status.Ask.Workload.JobID() == id && !status.Over() {
			asks = append(asks, *status)
		}
	}
	slices.SortFunc(workloads, func(a, b psg.Workload) int { return a.ID.Compare(b.ID) })
	slices.SortFunc(asks, func(a, b psg.AskStatus) int { return cmp.Compare(a.Ask.ID, b.Ask.ID) })
	return workloads, asks
}

// Workloads returns every workload, by ID.
func (s *State) Workloads() []psg.Workload {
	out := make([]psg.Workload, 0, len(s.workloads))
	for _, w := range s.workloads {
		out = append(out, *w)
	}
	slices.SortFunc(out, func(a, b psg.Workload) int { return a.ID.Compare(b.ID) })
	return out
}

// Live counts, for each workload, the asks of allocations that are not over.
func (s *State) Live() map[psg.WorkloadID]int {
	live := map[psg.WorkloadID]int{}
	for _, status := range s.asks {
		if !status.Over() && status.Ask.Alloc != "" {
			live[status.Ask.Workload]++
		}
	}
	return live
}
