package controller

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/psgrid/psg"
)

// heldFor is how long room stays reserved for a held workload while the
// orchestrator is told to start it; then it is asked for anew.
const heldFor = 15 * time.Minute

// The beginnings of the IDs of asks that the controller makes itself.
const (
	heldPrefix  = "held/"  // for an instance of a held workload
	steerPrefix = "steer/" // for an allocation that is to go elsewhere
)

// recount has a workload's instances counted in this cycle, if it is held or was.
func (c *Controller) recount(d psg.Delta) {
	switch d := d.(type) {
	case psg.WorkloadChanged:
		if d.Workload.Held || c.held[d.Workload.ID] {
			c.held[d.Workload.ID], c.uncounted[d.Workload.ID] = true, true
		}
	case psg.WorkloadGone:
		c.uncounted[d.Workload] = true
	case psg.Moved:
		if status := c.state.Ask(d.Ask); d.State == psg.Ending && status != nil && c.held[status.Ask.Workload] {
			c.uncounted[status.Ask.Workload] = true
		}
	case psg.Freed:
		status := c.state.Ask(d.Ask)
		if status != nil && (c.held[status.Ask.Workload] || strings.HasPrefix(string(d.Ask), planPrefix)) {
			c.uncounted[status.Ask.Workload] = true
		}
	}
}

// recountAll begins a lead: it counts whatever is held.
func (c *Controller) recountAll(view *psg.Snapshot) {
	c.held, c.uncounted = map[psg.WorkloadID]bool{}, map[psg.WorkloadID]bool{}
	for i := range view.Workloads {
		if w := &view.Workloads[i]; w.Held {
			c.held[w.ID], c.uncounted[w.ID] = true, true
		}
	}
}

// heldAsks asks on behalf of the instances of held workloads, which have no
// allocation that could ask, and takes back what is too much. A workload that
// is no longer held keeps what is reserved for it, for its allocations to use.
func (c *Controller) heldAsks(now time.Time) []psg.Delta {
	var deltas []psg.Delta
	for _, id := range sortedWorkloads(c.uncounted) {
		workload := c.state.Workload(id)
		_, asks := c.state.Job(id.JobID())
		asks = slices.DeleteFunc(asks, func(s psg.AskStatus) bool { return s.Ask.Workload != id })
		switch {
		case workload == nil:
			delete(c.held, id)
			deltas = append(deltas, free(asks, len(asks), "its workload is gone", now)...)
		case !workload.Held && workload.Version == 0 && len(asks) == 0:
			deltas = append(deltas, psg.WorkloadGone{Workload: id}) // planned, and never registered
		case !workload.Held:
			delete(c.held, id)
			waiting := slices.DeleteFunc(asks, func(s psg.AskStatus) bool { return s.Placement != nil })
			deltas = append(deltas, free(waiting, len(waiting), "its workload is no longer held", now)...)
		default:
			deltas = append(deltas, c.fill(workload, asks, now)...)
			c.steers.note(id.JobID(), now)
		}
	}
	clear(c.uncounted)
	return deltas
}

// fill asks for the instances that a held workload lacks, or takes back what is
// beyond its count.
func (c *Controller) fill(w *psg.Workload, asks []psg.AskStatus, now time.Time) []psg.Delta {
	if !startsByAsking(w) {
		return nil
	}
	asks = slices.DeleteFunc(asks, func(s psg.AskStatus) bool { return s.State == psg.Ending })
	missing := w.Count - len(asks)
	if missing <= 0 {
		return free(asks, -missing, "its workload wants fewer instances", now)
	}
	deltas := make([]psg.Delta, missing)
	for i := range deltas {
		deltas[i] = psg.Asked{Ask: psg.Ask{
			ID:       psg.RequestID(fmt.Sprintf("%s%s/%d-%d", heldPrefix, w.ID, c.state.Sequence(), i)),
			Workload: w.ID, At: now, Hold: heldFor,
		}}
	}
	return deltas
}

// startsByAsking reports whether instances of a held workload need a plan: not
// when there is one on every node, nor when only its children run.
func startsByAsking(w *psg.Workload) bool {
	return !w.Type.EveryNode() && w.Periodic == nil && w.Parameterized == nil
}

// free ends up to n of the asks that the controller made itself, the last first.
func free(asks []psg.AskStatus, n int, reason string, now time.Time) []psg.Delta {
	var deltas []psg.Delta
	for _, status := range slices.Backward(asks) {
		if len(deltas) == n {
			break
		}
		if id := status.Ask.ID; hasPrefix(id, heldPrefix) || hasPrefix(id, steerPrefix) {
			deltas = append(deltas, psg.Freed{Ask: status.Ask.ID, State: psg.Released, Reason: reason, At: now})
		}
	}
	return deltas
}

func sortedWorkloads(set map[psg.WorkloadID]bool) []psg.WorkloadID {
	ids := make([]psg.WorkloadID, 0, len(set))
	for id := range set {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, psg.WorkloadID.Compare)
	return ids
}

// releasable reports whether every held workload of a job has room for all its
// instances.
func releasable(workloads []psg.Workload, asks []psg.AskStatus) bool {
	held := false
	for i := range workloads {
		w := &workloads[i]
		if !w.Held {
			continue
		}
		held = true
		room := 0
		for _, status := range asks {
			if status.Ask.Workload == w.ID && status.Placement != nil && !status.Placement.Waits() && status.State != psg.Ending {
				room++
			}
		}
		if startsByAsking(w) && room < w.Count {
			return false
		}
	}
	return held
}
