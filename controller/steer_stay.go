package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/psgrid/psg"
)

// stepWithin is how long what a move consists of may take, once it has begun.
const stepWithin = 30 * time.Second

// uninterrupted is for what must not end halfway: whoever asked for it may leave.
func uninterrupted(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), stepWithin)
}

// notBegun notes why those of some moves that have no order were not begun.
func notBegun(moves []wantedMove, orders []psg.Order, err error) {
	why := "another of its group was begun, which counts as one that is down"
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		why = "there was no time left to begin it"
	case err != nil:
		why = strings.TrimSuffix(err.Error(), ": "+psg.ErrBusy.Error())
	}
	for i := range moves {
		begun := slices.ContainsFunc(orders, func(o psg.Order) bool { return o.Ask == moves[i].source.Ask.ID })
		if !begun && moves[i].stays == "" {
			moves[i].stays = why
		}
	}
}

// stays says why what is to leave a node does not: what was not begun and, where
// all is to leave, what may not move.
func (c *Controller) stays(ctx context.Context, r psg.Rebalance, moves []wantedMove) []psg.Stay {
	ctx, cancel := uninterrupted(ctx)
	defer cancel()
	var out []psg.Stay
	wanted := map[psg.RequestID]bool{}
	for _, m := range moves {
		wanted[m.source.Ask.ID] = true
		if m.stays != "" {
			out = append(out, psg.Stay{Workload: m.source.Ask.Workload, Alloc: m.source.Ask.Alloc, Reason: m.stays})
		}
	}
	view, why := c.Snapshot(), map[psg.WorkloadID]string{}
	for p := range view.Placements.All() {
		w := view.Workload(p.Ask.Workload)
		if !r.Empty || p.Node != r.Node || p.Ask.Alloc == "" || wanted[p.Ask.ID] || w == nil || !w.Managed() || w.Type.EveryNode() {
			continue
		}
		reason := c.unsettled(p)
		if reason == "" {
			if why[w.ID] == "" {
				why[w.ID] = c.protection(ctx, w, view)
			}
			reason = why[w.ID]
		}
		out = append(out, psg.Stay{Workload: w.ID, Alloc: p.Ask.Alloc, Reason: reason})
	}
	slices.SortFunc(out, func(a, b psg.Stay) int {
		return cmp.Or(a.Workload.Compare(b.Workload), cmp.Compare(a.Alloc, b.Alloc))
	})
	return out
}

// unsettled says why an allocation may not be moved yet, or not again; nothing of
// one that runs.
func (c *Controller) unsettled(p *psg.Placement) string {
	switch {
	case c.inWay(p.Ask.ID):
		return "it makes way for others"
	case p.State == psg.Moving:
		return "its move is under way"
	case p.State == psg.Ending:
		return "it is being stopped"
	case p.State != psg.Running:
		return fmt.Sprintf("it is %s: what does not run yet is not moved", p.State)
	}
	return ""
}

// protection says why policy keeps a workload's instances where they are.
func (c *Controller) protection(ctx context.Context, w *psg.Workload, view *psg.Snapshot) string {
	ruling, err := c.policy().Rule(ctx, w, view)
	switch {
	case err != nil:
		return fmt.Sprintf("whether policy protects it is not known: %v", err)
	case len(ruling.Protected) > 0:
		return fmt.Sprintf("it is protected: %s: %s", ruling.Protected[0].Source, ruling.Protected[0].Text)
	}
	return "it came meanwhile"
}
