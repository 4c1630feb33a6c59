package controller

import (
	"context"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/placement"
)

// Cycle decides once, as of now: freeze what changed, ask policy, choose nodes,
// commit, tell. Nothing is told before it is committed; if the commit fails,
// nothing was told and what was taken in is taken in again.
func (c *Controller) Cycle(ctx context.Context, now time.Time) error {
	taken := c.inbox.take(c.config.Batch)
	facts := c.takeIn(taken, now)

	decisions, err := c.decide(ctx, taken, now)
	if err != nil {
		return c.rewind(ctx, taken, now, err)
	}

	for left := c.chunks(facts, decisions); len(left) > 0; {
		var record psg.Record
		if record, left, err = c.append(ctx, left, now); err != nil {
			return c.rewind(ctx, taken, now, err)
		}
		if err := c.commit(record); err != nil {
			taken.answer(err)
			return err
		}
	}

	if err := c.mustLead(); err != nil {
		taken.answer(err)
		return err // committed, but for the next leader to tell
	}
	c.tell(facts, decisions, taken)
	return nil
}

// decide answers the resizes, or a preemption, or settles those under way, or
// else rules on the pending asks and chooses their nodes. Each has a cycle of its
// own, so that the next is decided on what it leaves.
func (c *Controller) decide(ctx context.Context, taken batch, now time.Time) ([]psg.Delta, error) {
	if len(taken.resizes) > 0 {
		c.inbox.wake() // for the asks
		return c.decideResizes(taken.resizes), nil
	}
	if taken.preempt != nil {
		c.inbox.wake()
		return c.decidePreempt(ctx, taken.preempt, now)
	}
	if made := c.wayMade(now); len(made) > 0 {
		c.inbox.wake()
		return made, nil
	}
	if !c.dirty && now.Sub(c.solved) < resolveAfter {
		return nil, nil
	}
	c.dirty, c.solved = false, now
	asks := c.state.Pending()
	if len(asks) == 0 {
		return nil, c.lookForMoves(ctx, now)
	}
	view, policy := c.freeze(now), c.policy()
	rulings, err := rule(ctx, policy, asks, view)
	if err != nil {
		return nil, err
	}
	c.bind(c.engine, policy, rulings, asks, view, now)
	plan := c.engine.Solve(placement.Problem{
		Now: now, Seed: c.state.Sequence(), Asks: asks, Rulings: rulings, Rows: rows(view), Stop: within(c.config.SolveFor),
	})
	if left := len(plan.Unreached); left > 0 {
		c.dirty = true
		c.config.Log.Warn("cycle's time was up", "asks", len(asks), "not_reached", left)
	}
	if plan, err = c.lawful(ctx, policy.Sequel(view), plan, view); err != nil {
		return nil, err
	}
	audited(plan.Placements, rulings, view)
	return c.decisions(plan, now), nil
}

// rule asks policy once for each workload that has a pending ask.
func rule(ctx context.Context, policy Policy, asks []psg.Ask, view *psg.Snapshot) (map[psg.WorkloadID]*psg.Ruling, error) {
	rulings := map[psg.WorkloadID]*psg.Ruling{}
	for _, ask := range asks {
		workload := view.Workload(ask.Workload)
		if rulings[ask.Workload] != nil || workload == nil {
			continue
		}
		ruling, err := policy.Rule(ctx, workload, view)
		if err != nil {
			return nil, err
		}
		rulings[ask.Workload] = &ruling
	}
	return rulings, nil
}

// bind has an engine go by what bounds placement beyond rulings: the limits of a
// policy, and rulings under which nothing is planned where Nomad starts nothing.
// waiting are the asks that it is to answer.
func (c *Controller) bind(engine *placement.Engine, policy Policy, rulings map[psg.WorkloadID]*psg.Ruling, waiting []psg.Ask, view *psg.Snapshot, now time.Time) {
	engine.SetLimits(policy.Limits())
	c.avoid(rulings, waiting, view, now)
}

func rows(view *psg.Snapshot) []psg.NodeID {
	ids := make([]psg.NodeID, len(view.Nodes))
	for i := range view.Nodes {
		ids[i] = view.Nodes[i].ID
	}
	return ids
}

// within is a budget of wall time that begins now.
func within(limit time.Duration) (spent func() bool) {
	end := time.Now().Add(limit)
	return func() bool { return !time.Now().Before(end) }
}
