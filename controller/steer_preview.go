package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/psgrid/psg"
)

// maxPreviews is how many previews may be made at a time: each has a placement
// engine of its own.
const maxPreviews = 2

// Preview says what Plan would say of workloads of one job, and changes nothing:
// where the instances that have no place would get one now, beside those that
// have, and why not. It takes the steps of the cycles that Plan would wait for, on
// a placement engine made from what the controller knows: it is for people, not
// for each registration.
//
// Errors: psg.ErrInvalid, psg.ErrBusy (others are being made), psg.ErrNotLeader.
func (c *Controller) Preview(ctx context.Context, workloads []psg.Workload) ([]psg.Verdict, error) {
	select {
	case c.previews <- struct{}{}:
		defer func() { <-c.previews }()
	default:
		return nil, fmt.Errorf("%d previews are being made: %w", maxPreviews, psg.ErrBusy)
	}
	verdicts, err := c.Judge(ctx, workloads)
	if err != nil || slices.ContainsFunc(verdicts, func(v psg.Verdict) bool { return len(v.Rejected) > 0 }) {
		return verdicts, err
	}
	r, err := c.rehearse(workloads)
	if err != nil {
		return nil, err
	}
	if err := r.run(ctx); err != nil {
		return nil, fmt.Errorf("preview: %w", err)
	}
	hints, waiting := r.hints(workloads), r.waiting()
	for i := range verdicts {
		v := &verdicts[i]
		v.Hint, v.Waiting = hints[v.Workload], waiting[v.Workload]
		v.Hold = workloads[i].Gang != "" && len(v.Waiting) > 0
	}
	return verdicts, nil
}

// rehearsal is what would happen if workloads were registered.
type rehearsal struct {
	controller *Controller
	by         choice
	asks       []psg.Ask                      // that want a place yet, everybody's
	own        []psg.RequestID                // the asks of the registration
	answers    map[psg.RequestID]*psg.Refusal // of the asks that were decided; nil for those with a place
}

// rehearse begins with what a registration submits.
func (c *Controller) rehearse(workloads []psg.Workload) (*rehearsal, error) {
	deltas, own, err := c.planAsks(planPrefix+"preview", workloads)
	if err != nil {
		return nil, err
	}
	r := &rehearsal{controller: c, own: own, answers: map[psg.RequestID]*psg.Refusal{}}
	now := time.Now()
	c.mu.Lock()
	view, asks, seed := *c.state.Snapshot(now), c.state.Pending(), c.state.Sequence()
	c.mu.Unlock()
	dropped := map[psg.RequestID]bool{}
	for _, d := range deltas {
		switch d := d.(type) {
		case psg.WorkloadChanged:
			maps.Copy(dropped, c.unheldBy(d.Workload.ID))
			view.Workloads = with(view.Workloads, d.Workload)
		case psg.Asked:
			asks = append(asks, d.Ask)
		}
	}
	r.asks = slices.DeleteFunc(asks, func(ask psg.Ask) bool { return dropped[ask.ID] })
	r.by = choice{engine: engineOf(&view), policy: c.policy(), view: &view, now: now, seed: seed, trails: &map[psg.GangID]trail{}}
	return r, nil
}

// unheldBy are the asks of a held workload that end when somebody registers it
// without the hold: see heldAsks.
func (c *Controller) unheldBy(id psg.WorkloadID) map[psg.RequestID]bool {
	ended := map[psg.RequestID]bool{}
	known, _ := c.standingOf(id)
	if known == nil || !known.Held {
		return ended
	}
	_, asks := c.job(id.JobID())
	asks = slices.DeleteFunc(asks, func(s psg.AskStatus) bool { return s.Ask.Workload != id || s.Placement != nil })
	for _, d := range free(asks, len(asks), "", time.Time{}) {
		if freed, ok := d.(psg.Freed); ok {
			ended[freed.Ask] = true
		}
	}
	return ended
}

// with is a list of workloads with one more, or another in its place.
func with(list []psg.Workload, w psg.Workload) []psg.Workload {
	i, known := slices.BinarySearchFunc(list, w.ID, func(v psg.Workload, id psg.WorkloadID) int { return v.ID.Compare(id) })
	if known {
		list = slices.Clone(list)
		list[i] = w
		return list
	}
	return slices.Insert(slices.Clip(list), i, w)
}

// run decides until each of the registration's asks has an answer, as cycle after
// cycle would, or a registration would wait no longer.
func (r *rehearsal) run(ctx context.Context) error {
	late := within(planWithin)
	r.by.stop = func() bool { return late() || ctx.Err() != nil }
	undecided := func(id psg.RequestID) bool { _, decided := r.answers[id]; return !decided }
	for again := true; again && !r.by.stop() && slices.ContainsFunc(r.own, undecided); {
		plan, more, err := r.controller.choose(ctx, r.by, r.asks)
		if err != nil {
			return err
		}
		r.take(plan)
		again = more
	}
	return ctx.Err()
}

// take has a plan come true.
func (r *rehearsal) take(plan psg.Plan) {
	now := map[psg.RequestID]*psg.Placement{}
	for _, used := range plan.Consumed {
		r.by.engine.Apply(psg.Freed{Ask: used, State: psg.Released})
		now[used] = nil
	}
	for i := range plan.Placements {
		p := &plan.Placements[i]
		r.by.engine.Apply(psg.Placed{Placement: *p})
		now[p.Ask.ID], r.answers[p.Ask.ID] = p, nil
	}
	for i := range plan.Refusals {
		r.answers[plan.Refusals[i].Ask] = &plan.Refusals[i]
	}
	r.asks = slices.DeleteFunc(r.asks, func(ask psg.Ask) bool { return now[ask.ID] != nil })
	r.by.view = changed(r.by.view, now)
}

// changed is a view in which asks hold what now says, nil for nothing.
func changed(view *psg.Snapshot, now map[psg.RequestID]*psg.Placement) *psg.Snapshot {
	if len(now) == 0 {
		return view
	}
	next := *view
	next.Placements = view.Placements.Renew(slices.Collect(maps.Keys(now)), func(id psg.RequestID) *psg.Placement { return now[id] })
	return &next
}

// hints say where the instances of each workload would stand.
func (r *rehearsal) hints(workloads []psg.Workload) map[psg.WorkloadID]psg.Hint {
	of := map[psg.WorkloadID]psg.Hint{}
	for i := range workloads {
		if startsByAsking(&workloads[i]) {
			of[workloads[i].ID] = nil
		}
	}
	for p := range r.by.view.Placements.All() {
		hint, wanted := of[p.Ask.Workload]
		if !wanted || p.State.Leaves() {
			continue
		}
		if hint == nil {
			hint = psg.Hint{}
			of[p.Ask.Workload] = hint
		}
		hint[p.Node]++
	}
	return of
}

// waiting says, by workload, why the registration's asks that have no place wait.
func (r *rehearsal) waiting() map[psg.WorkloadID][]psg.Refusal {
	of := map[psg.WorkloadID][]psg.Refusal{}
	left := map[psg.RequestID]psg.WorkloadID{}
	for _, ask := range r.asks {
		left[ask.ID] = ask.Workload
	}
	for _, id := range slices.Sorted(slices.Values(r.own)) {
		w, waits := left[id]
		if !waits {
			continue
		}
		refused := psg.Refusal{Ask: id, State: psg.Queued, Summary: notDecided}
		if told := r.answers[id]; told != nil {
			refused = *told
		}
		of[w] = append(of[w], refused)
	}
	return of
}
