package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/ledger"
)

// Stopper ends one allocation in an orchestrator, which may start another in its
// place.
type Stopper interface {
	Stop(ctx context.Context, alloc psg.AllocID) error
}

// evictions is whether somebody carries stops out, and what wakes them.
type evictions struct {
	carried atomic.Bool
	news    chan struct{} // holds a token while there is somebody new to stop
}

func (e *evictions) open() bool { return e.carried.Load() }

// MakeWay stops those who make way for others, as committed, and again if they
// do not end; it checks that this controller leads, and that they still are to
// make way, before each. It runs until ctx ends: it is one of Config.Duties.
func (c *Controller) MakeWay(ctx context.Context, to Stopper) error {
	c.evictions.carried.Store(true)
	defer c.evictions.carried.Store(false)
	stopped := map[psg.RequestID]time.Time{}
	again := time.NewTicker(stopWithin / 4)
	defer again.Stop()
	for {
		if err := c.stopVictims(ctx, to, stopped); ctx.Err() != nil {
			return ctx.Err()
		} else if err != nil {
			c.config.Log.Warn("not stopped", "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.evictions.news:
		case <-again.C:
		}
	}
}

// stopVictims stops whoever is in the way and was not stopped lately. One that
// cannot be stopped keeps nobody from being so, and is tried again a little later.
func (c *Controller) stopVictims(ctx context.Context, to Stopper, stopped map[psg.RequestID]time.Time) error {
	var orders []psg.Order
	c.view(func(s *ledger.State) {
		var claims []*psg.Placement
		for _, id := range s.Waiting() {
			claims = append(claims, s.Ask(id).Placement)
		}
		orders = stops(s, claims...)
	})
	due := map[psg.RequestID]time.Time{}
	for _, order := range orders {
		due[order.Ask] = stopped[order.Ask]
	}
	for id := range stopped {
		if _, still := due[id]; !still {
			delete(stopped, id)
		}
	}
	var errs []error
	for _, order := range orders {
		if time.Since(due[order.Ask]) < stopWithin || !c.inWay(order.Ask) || c.ending(order.Ask) {
			continue
		}
		if err := c.mustLead(); err != nil {
			return err
		}
		err := inTime(ctx, orchestratorWithin, func(ctx context.Context) error { return to.Stop(ctx, order.Alloc) })
		if err != nil {
			errs = append(errs, fmt.Errorf("stop %s: %w", order.Alloc, err))
			stopped[order.Ask] = time.Now().Add(steerRetry - stopWithin)
			continue
		}
		stopped[order.Ask] = time.Now()
		c.steers.stops(1)
		c.config.Log.Info("preempted", "alloc", order.Alloc, "workload", order.Workload, "node", order.Node)
	}
	return errors.Join(errs...)
}

// ending reports whether the orchestrator stops an allocation already.
func (c *Controller) ending(id psg.RequestID) bool {
	status, _ := c.Ask(id)
	return status.State == psg.Ending
}

func (c *Controller) inWay(victim psg.RequestID) (claimed bool) {
	c.view(func(s *ledger.State) { _, claimed = s.ClaimedBy(victim) })
	return claimed
}

// wayMade grants the room of those for whom all others have made way, and gives
// up where that can no longer be, or took too long: for a gang as a whole.
func (c *Controller) wayMade(now time.Time) []psg.Delta {
	var deltas []psg.Delta
	waiting := c.state.Waiting()
	vain, together := map[psg.RequestID]string{}, map[psg.GangID]string{}
	for _, id := range waiting {
		p := c.state.Ask(id).Placement
		vain[id] = c.inVain(p, now)
		if gang := c.gang(p.Ask.Workload); gang != "" && together[gang] == "" {
			together[gang] = vain[id]
		}
	}
	for _, id := range waiting {
		p := *c.state.Ask(id).Placement
		why := cmp.Or(vain[id], together[c.gang(p.Ask.Workload)])
		switch {
		case why != "":
			deltas = append(deltas, giveUp(p.Ask, why, now))
		case len(c.state.InWay(&p)) == 0:
			deltas = append(deltas, psg.Placed{Placement: cleared(p, now)})
		}
	}
	return deltas
}

// inVain says why it is of no use that others make way for a placement, or "".
func (c *Controller) inVain(p *psg.Placement, now time.Time) string {
	left, node := c.state.InWay(p), c.state.Node(p.Node)
	switch {
	case !c.ownerWaits(p.Ask.ID):
		return "whoever needed it has a place, or has ended"
	case node == nil || !node.Ready:
		return fmt.Sprintf("node %s is not ready", p.Node)
	case len(left) > 0 && c.deadlines.over(p.Ask.ID, p.Expires, now):
		return fmt.Sprintf("%s did not end within %s", left[0], preemptWithin)
	}
	return ""
}

// ownerWaits reports whether room that is held on behalf of another ask is of use to
// it still.
func (c *Controller) ownerWaits(id psg.RequestID) bool {
	owner, claims := claimant(id)
	if !claims {
		return true
	}
	status := c.state.Ask(owner)
	return status != nil && status.Pending()
}

// cleared is a placement that no longer waits for others.
func cleared(p psg.Placement, now time.Time) psg.Placement {
	p.Victims, p.Since = nil, now
	if p.Ask.Hold > 0 {
		p.Expires = now.Add(p.Ask.Hold)
	} else {
		p.State, p.Expires = psg.Granted, time.Time{}
	}
	return p
}

// giveUp has an ask wait again as before. One that only held room on behalf of
// another is over.
func giveUp(ask psg.Ask, why string, now time.Time) psg.Delta {
	why = "preemption given up: " + why
	if hasPrefix(ask.ID, steerPrefix) {
		return psg.Freed{Ask: ask.ID, State: psg.Released, Reason: why, At: now}
	}
	return psg.Refused{Refusal: psg.Refusal{Ask: ask.ID, State: psg.Queued, Summary: why}, At: now}
}

// blamed says for whom an allocation that has ended made way, if it did.
func (c *Controller) blamed(d psg.Delta) psg.Delta {
	freed, ok := d.(psg.Freed)
	if !ok {
		return d
	}
	if by, claimed := c.state.ClaimedBy(freed.Ask); claimed {
		freed.Reason = fmt.Sprintf("preempted for %s: %s", by, freed.Reason)
	}
	return freed
}

// waitsFor says to whoever asked that room is being made.
func waitsFor(p *psg.Placement) *psg.Refusal {
	return &psg.Refusal{
		Ask: p.Ask.ID, State: psg.Queued, Node: p.Node,
		Summary: fmt.Sprintf("room is being made on %s: %d of lower priority end for it", p.Node, len(p.Victims)),
	}
}
