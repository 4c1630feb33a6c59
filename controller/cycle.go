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
	plan, again, err := c.choose(ctx, choice{
		engine: c.engine, policy: c.policy(), view: c.freeze(now), now: now, seed: c.state.Sequence(), stop: within(c.config.SolveFor),
		trails: &c.trails,
	}, asks)
	if err != nil {
		return nil, err
	}
	if left := len(plan.Unreached); left > 0 {
		c.config.Log.Warn("cycle's time was up", "asks", len(asks), "not_reached", left)
	}
	c.dirty = c.dirty || again
	return c.decisions(plan, now), nil
}

// choice is what nodes are chosen by: to be placed on, or only to see.
type choice struct {
	engine *placement.Engine // knows what view shows
	policy Policy
	view   *psg.Snapshot
	now    time.Time
	seed   uint64
	stop   func() bool
	trails *map[psg.GangID]trail // what the last choice left half done, and then what this one does
}

// choose rules on asks and chooses their nodes, of which policy allows all
// together. It says whether more may come of choosing again on what it placed.
func (c *Controller) choose(ctx context.Context, by choice, asks []psg.Ask) (plan psg.Plan, again bool, err error) {
	rulings, err := rule(ctx, by.policy, asks, by.view)
	if err != nil {
		return plan, false, err
	}
	c.bind(by.engine, by.policy, rulings, asks, by.view, by.now)
	trial := by.engine.Try(placement.Problem{
		Now: by.now, Seed: by.seed, Asks: asks, Rulings: rulings, Rows: rows(by.view), Stop: by.stop,
	})
	defer trial.End()
	plan = trial.Plan()
	again = len(plan.Unreached) > 0
	audited(plan.Placements, rulings, by.view)
	judging := judging{by: by, rulings: rulings, trial: trial, sequel: by.policy.Sequel(by.view)}
	judging.rule = func(ask psg.Ask, ground *psg.Snapshot) (*psg.Ruling, error) {
		fresh, err := rule(ctx, by.policy, []psg.Ask{ask}, ground)
		c.avoid(fresh, nil, ground, by.now)
		return fresh[ask.Workload], err
	}
	plan, cut, err := judging.lawful(ctx, plan)
	return plan, again || cut, err
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
