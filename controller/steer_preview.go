package controller

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/placement"
)

// Preview says what Plan would say of workloads of one job, and changes nothing:
// where the instances that have no place would get one now, beside those that
// have, and why not. It is asked of a placement engine of its own, which is made
// from what the controller knows: it is for people, not for each registration.
func (c *Controller) Preview(ctx context.Context, workloads []psg.Workload) ([]psg.Verdict, error) {
	verdicts, err := c.Judge(ctx, workloads)
	if err != nil || slices.ContainsFunc(verdicts, func(v psg.Verdict) bool { return len(v.Rejected) > 0 }) {
		return verdicts, err
	}
	view, policy := c.Snapshot(), c.policy()
	engine := engineOf(view, nil)
	problem, err := c.previewed(ctx, workloads, engine, policy, view)
	if err != nil {
		return nil, err
	}
	c.bind(engine, policy, problem.Rulings, nil, view, problem.Now)
	of := map[psg.RequestID]psg.WorkloadID{}
	for _, ask := range problem.Asks {
		of[ask.ID] = ask.Workload
	}
	plan := engine.Solve(problem)
	for i := range verdicts {
		c.foresee(&verdicts[i], &workloads[i], &plan, of)
	}
	return verdicts, ctx.Err()
}

// previewed is what is asked of an engine: places for the instances that have
// none, of workloads that it is told of.
func (c *Controller) previewed(ctx context.Context, workloads []psg.Workload, engine *placement.Engine, policy Policy, view *psg.Snapshot) (problem placement.Problem, err error) {
	seed, _, _ := c.Position()
	problem = placement.Problem{
		Now: time.Now(), Seed: seed, Rulings: map[psg.WorkloadID]*psg.Ruling{}, Rows: rows(view),
		Stop: func() bool { return ctx.Err() != nil },
	}
	for g, w := range workloads {
		known, live := c.standingOf(w.ID)
		if known != nil {
			w.Version = known.Version
		}
		w.Held = false
		missing := w.Count - live
		if !startsByAsking(&w) || missing <= 0 {
			continue
		}
		if missing > maxPlanned {
			return problem, fmt.Errorf("%s: %d instances to place at once, at most %d: %w", w.ID, missing, maxPlanned, psg.ErrInvalid)
		}
		engine.Apply(psg.WorkloadChanged{Workload: w})
		ruling, err := policy.Rule(ctx, &w, view)
		if err != nil {
			return problem, fmt.Errorf("preview %s: %w", w.ID, err)
		}
		problem.Rulings[w.ID] = &ruling
		for i := range missing {
			ask := psg.Ask{ID: psg.RequestID(fmt.Sprintf("preview/%d-%d", g, i)), Workload: w.ID, At: problem.Now, Hold: planHold}
			problem.Asks = append(problem.Asks, ask)
		}
	}
	return problem, nil
}

// foresee fills in a verdict with where the instances stand and would stand.
func (c *Controller) foresee(v *psg.Verdict, w *psg.Workload, plan *psg.Plan, of map[psg.RequestID]psg.WorkloadID) {
	known, asks := c.job(w.ID.JobID())
	v.Hint = hints(known, asks)[w.ID.Group]
	if v.Hint == nil {
		v.Hint = psg.Hint{}
	}
	for _, p := range plan.Placements {
		if p.Ask.Workload == w.ID {
			v.Hint[p.Node]++
		}
	}
	for _, refused := range plan.Refusals {
		if of[refused.Ask] == w.ID {
			v.Waiting = append(v.Waiting, refused)
		}
	}
	v.Hold = w.Gang != "" && len(v.Waiting) > 0
}
