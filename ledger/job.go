package ledger

import (
	"cmp"
	"slices"

	"github.com/psgrid/psg"
)

// job is what there is of a job: its workloads, and its asks that are not over.
type job struct {
	workloads map[psg.WorkloadID]struct{}
	asks      map[psg.RequestID]*psg.AskStatus
}

// job returns the entry of a workload's job, to which something is added.
func (s *State) job(id psg.WorkloadID) *job {
	entry := s.jobs[id.JobID()]
	if entry == nil {
		entry = &job{map[psg.WorkloadID]struct{}{}, map[psg.RequestID]*psg.AskStatus{}}
		s.jobs[id.JobID()] = entry
	}
	return entry
}

// leave has something removed from the entry of a workload's job, and that entry
// with the last.
func (s *State) leave(id psg.WorkloadID, remove func(*job)) {
	entry := s.jobs[id.JobID()]
	if entry == nil {
		return
	}
	if remove(entry); len(entry.workloads) == 0 && len(entry.asks) == 0 {
		delete(s.jobs, id.JobID())
	}
}

// Job returns the workloads of a job and where their asks stand, those that are
// over left out, each by ID.
func (s *State) Job(id psg.JobID) (workloads []psg.Workload, asks []psg.AskStatus) {
	entry := s.jobs[id]
	if entry == nil {
		return nil, nil
	}
	for id := range entry.workloads {
		workloads = append(workloads, *s.workloads[id])
	}
	for _, status := range entry.asks {
		asks = append(asks, *status)
	}
	slices.SortFunc(workloads, func(a, b psg.Workload) int { return a.ID.Compare(b.ID) })
	slices.SortFunc(asks, func(a, b psg.AskStatus) int { return cmp.Compare(a.Ask.ID, b.Ask.ID) })
	return workloads, asks
}

// Wanted reports whether a job has workloads.
func (s *State) Wanted(id psg.JobID) bool {
	entry := s.jobs[id]
	return entry != nil && len(entry.workloads) > 0
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
