package controller

import (
	"cmp"
	"slices"
	"time"

	"github.com/psgrid/psg"
)

// resolveAfter is how long pending asks may stay unsolved although nothing
// that is recorded has changed: telemetry and the clock may have.
const resolveAfter = time.Second

// takeIn folds what was seen and returns those facts that are news, to be
// recorded. They are applied before they are committed, since what the world
// did is so whether or not it is recorded; rewind forgets them if need be.
func (c *Controller) takeIn(taken batch, now time.Time) []psg.Delta {
	c.mu.Lock()
	defer c.mu.Unlock()
	var facts []psg.Delta
	take := func(d psg.Delta) {
		if !c.state.News(d) {
			return
		}
		d = c.blamed(d)
		err := c.log.Check(d)
		if err == nil {
			err = c.state.Fold(d, c.state.Sequence()+1)
		}
		if err != nil {
			c.config.Log.Error("fact ignored", "error", err)
			return
		}
		c.engine.Apply(d)
		c.recount(d)
		facts = append(facts, d)
	}
	for _, seen := range taken.observed {
		if err := c.state.Fold(seen, c.state.Sequence()); err == nil {
			c.engine.Apply(seen)
		}
		if d, news := c.found(seen); news {
			take(d)
		}
	}
	for _, d := range taken.deltas {
		take(c.joined(d))
		if asked, ok := d.(psg.Asked); ok && asked.Ask.Started {
			if status := c.state.Ask(asked.Ask.ID); status != nil && startIsNews(status) {
				take(c.startedUnasked(asked.Ask, now))
			}
		}
	}
	for _, expired := range c.expired(now) {
		take(expired)
	}
	for _, d := range c.heldAsks(now) {
		take(d)
	}
	c.dirty = c.dirty || len(facts) > 0 || taken.woken
	return facts
}

// startedUnasked accounts an allocation whose gate opened by itself.
func (c *Controller) startedUnasked(ask psg.Ask, now time.Time) psg.Delta {
	running := psg.Placement{Ask: ask, Node: ask.Node, State: psg.Running, Since: now}
	if workload := c.state.Workload(ask.Workload); workload != nil {
		running.Request = workload.Request
	}
	c.config.Log.Warn("allocation started without a grant", "alloc", ask.Alloc, "workload", ask.Workload, "node", ask.Node)
	return psg.Placed{Placement: running}
}

// expired frees the reservations whose time is over, in the order of their IDs.
func (c *Controller) expired(now time.Time) []psg.Delta {
	var freed []psg.Delta
	c.deadlines.keep(func(id psg.RequestID) bool {
		status := c.state.Ask(id)
		return status != nil && status.Placement != nil && !status.Placement.Expires.IsZero()
	})
	for _, id := range c.state.Expiring() {
		if c.deadlines.over(id, c.state.Ask(id).Placement.Expires, now) {
			freed = append(freed, psg.Freed{Ask: id, State: psg.Released, Reason: "reservation expired", At: now})
		}
	}
	return freed
}

// byNode sorts observations, whose map order must not reach the engine.
func byNode(observed map[psg.NodeID]psg.NodeObserved) []psg.NodeObserved {
	sorted := make([]psg.NodeObserved, 0, len(observed))
	for _, seen := range observed {
		sorted = append(sorted, seen)
	}
	slices.SortFunc(sorted, func(a, b psg.NodeObserved) int { return cmp.Compare(a.Node, b.Node) })
	return sorted
}
