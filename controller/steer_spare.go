package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/ledger"
)

// groupOn returns a workload and how many of its allocations are on a node.
func (c *Controller) groupOn(id psg.WorkloadID, node psg.NodeID) (workload *psg.Workload, there int) {
	c.view(func(s *ledger.State) {
		workload = s.Workload(id)
		_, asks := s.Job(id.JobID())
		for _, status := range asks {
			if status.Ask.Workload == id && status.Ask.Alloc != "" && (status.Ask.Node == node || status.Placement != nil && status.Placement.Node == node) {
				there++
			}
		}
	})
	return workload, there
}

// movable are the running allocations on a node that PSG may move, those of the
// lowest priority first, each group's together. What makes way for others is
// stopped anyway.
func (c *Controller) movable(ctx context.Context, node psg.NodeID) ([]psg.AskStatus, error) {
	view, rules := c.Snapshot(), c.policy()
	if _, known := view.Row(node); !known {
		return nil, fmt.Errorf("node %s: %w", node, psg.ErrUnknown)
	}
	protected := map[psg.WorkloadID]bool{}
	var out []psg.AskStatus
	for p := range view.Placements.All() {
		w := view.Workload(p.Ask.Workload)
		if p.Node != node || p.State != psg.Running || w == nil || !w.Managed() || !startsByAsking(w) || c.inWay(p.Ask.ID) {
			continue
		}
		keep, judged := protected[w.ID]
		if !judged {
			ruling, err := rules.Rule(ctx, w, view)
			if err != nil {
				return nil, fmt.Errorf("move %s: %w", w.ID, err)
			}
			keep = len(ruling.Protected) > 0
			protected[w.ID] = keep
		}
		if status, known := c.Ask(p.Ask.ID); known && !keep && status.Placement != nil {
			out = append(out, status)
		}
	}
	slices.SortFunc(out, func(a, b psg.AskStatus) int {
		return cmp.Or(cmp.Compare(view.Workload(a.Ask.Workload).Priority, view.Workload(b.Ask.Workload).Priority),
			a.Ask.Workload.Compare(b.Ask.Workload), cmp.Compare(a.Ask.ID, b.Ask.ID))
	})
	return out, nil
}

// allowedDown is how many instances of a workload a move may have down at once:
// what its migrate block says, one without it, and no more than its disruption
// block allows.
func allowedDown(w *psg.Workload) int {
	allowed := 1
	if w.Migrate != nil {
		allowed = max(1, w.Migrate.MaxParallel)
	}
	if w.Disruption != nil {
		allowed = min(allowed, w.Disruption.MaxUnavailable)
	}
	return allowed
}

// spares reports whether one instance of a workload may be down just now.
func (c *Controller) spares(id psg.WorkloadID) bool {
	spare := false
	c.view(func(s *ledger.State) {
		w := s.Workload(id)
		if w == nil {
			return
		}
		running := 0
		_, asks := s.Job(id.JobID())
		rooms := slices.DeleteFunc(slices.Clone(asks), func(s psg.AskStatus) bool { return !hasPrefix(s.Ask.ID, movePrefix) })
		for _, status := range asks {
			_, claimed := s.ClaimedBy(status.Ask.ID)
			if status.Ask.Workload == id && status.State == psg.Running && !claimed && !leaves(status.Ask.ID, rooms) {
				running++
			}
		}
		spare = running-1 >= w.Count-allowedDown(w)
	})
	return spare
}

// leaves reports whether one of some rooms is for the successor of an allocation,
// which is about to move.
func leaves(source psg.RequestID, rooms []psg.AskStatus) bool {
	return slices.ContainsFunc(rooms, func(s psg.AskStatus) bool { return reservedFor(s.Ask.ID, movePrefix, source) })
}
