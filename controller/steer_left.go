package controller

import (
	"context"
	"fmt"
	"time"

	"github.com/psgrid/psg"
)

const (
	// leftWithin is when a move that was begun, and is not known to go on, is left
	// behind: its steps take less.
	leftWithin = stepWithin + 10*time.Second
	// askedWithin is so for what was asked for on behalf of somebody: who waits for it
	// does not for as long.
	askedWithin = 2 * rebalanceWithin
)

// leftBehind ends what an earlier leader, or one that was cut off in between, has
// begun and not ended: moves that nobody carries on, and what was asked for on
// behalf of somebody who no longer waits. A shift that Nomad goes on with is gone on
// with here.
func (c *Controller) leftBehind(ctx context.Context, now time.Time) error {
	shifting := map[psg.WorkloadID]bool{}
	for _, w := range c.Snapshot().Workloads {
		if !w.Shifting {
			continue
		}
		shifting[w.ID] = true
		if c.steers.shiftOf(w.ID.JobID()) == nil {
			c.steers.note(w.ID.JobID(), now)
		}
	}
	leaving := c.steers.leaving()
	var ends []psg.Delta
	for _, status := range c.statuses() {
		id, workload := status.Ask.ID, status.Ask.Workload
		switch old := now.Sub(status.Since); {
		case old > leftWithin && status.State == psg.Moving && !leaving[id] && !shifting[workload] && c.steers.shiftOf(workload.JobID()) == nil:
			why := fmt.Sprintf("it runs on: its move was not ended within %v", leftWithin)
			ends = append(ends, psg.Moved{Ask: id, State: psg.Running, Reason: why, At: now})
			c.config.Log.Warn("a move was left behind", "alloc", status.Ask.Alloc, "workload", workload)
		case old > askedWithin && status.Pending() && (hasPrefix(id, steerPrefix) || hasPrefix(id, movePrefix) || hasPrefix(id, planPrefix)):
			ends = append(ends, psg.Freed{Ask: id, State: psg.Released, Reason: "nobody waits for it any more", At: now})
		}
	}
	return c.Report(ctx, ends)
}

// leaving are the allocations of moves that this controller has begun and that have
// yet to end.
func (s *steers) leaving() map[psg.RequestID]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	sources := map[psg.RequestID]bool{}
	for _, r := range s.records {
		for _, o := range r.moves {
			sources[o.source] = true
		}
	}
	return sources
}
