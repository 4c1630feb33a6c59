package controller

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/ledger"
)

const (
	planPrefix = "plan/" // begins the IDs of asks for a registration's instances
	// planHold is how long room stays reserved for a registration: its
	// allocations come within seconds.
	planHold = 2 * time.Minute
	// planWithin is how long a registration waits for its plan.
	planWithin = 3 * time.Second
	maxPlanned = psg.MaxReservationCount // instances of one registration
	maxGroups  = 1_000                   // its groups
	notDecided = "not decided yet"
)

// Judge says whether policy admits workloads of one job that somebody wants to
// register.
func (c *Controller) Judge(ctx context.Context, workloads []psg.Workload) ([]psg.Verdict, error) {
	if err := c.mustLead(); err != nil {
		return nil, err
	}
	if len(workloads) > maxGroups {
		return nil, fmt.Errorf("%d groups of one job, at most %d: %w", len(workloads), maxGroups, psg.ErrInvalid)
	}
	view, policy := c.Snapshot(), c.policy()
	verdicts := make([]psg.Verdict, len(workloads))
	for i := range workloads {
		w := workloads[i]
		w.Version = 0 // not registered: nothing about it is worth remembering
		ruling, err := policy.Rule(ctx, &w, view)
		if err != nil {
			return nil, fmt.Errorf("judge %s: %w", w.ID, err)
		}
		verdicts[i] = psg.Verdict{Workload: w.ID, Rejected: ruling.Rejected}
	}
	return verdicts, nil
}

// Plan judges workloads of one job that is about to be registered and, if policy
// admits all of them, reserves room for the instances that have none, under the
// request's ID, and says where all are wanted. The workloads are known from here
// on as they would be registered: Abandon takes that back. What finds no room is
// not reserved; a gang of which a part finds none is to be held.
//
// Errors: psg.ErrInvalid, psg.ErrBusy, psg.ErrNotLeader.
func (c *Controller) Plan(ctx context.Context, request psg.RequestID, workloads []psg.Workload) ([]psg.Verdict, error) {
	verdicts, err := c.Judge(ctx, workloads)
	if err != nil || slices.ContainsFunc(verdicts, func(v psg.Verdict) bool { return len(v.Rejected) > 0 }) {
		return verdicts, err
	}
	if !strings.HasPrefix(string(request), planPrefix) {
		return nil, fmt.Errorf("request %q does not begin with %q: %w", request, planPrefix, psg.ErrInvalid)
	}
	deltas, ids, err := c.planAsks(request, workloads)
	if err != nil {
		return nil, err
	}
	if err := c.decided(ctx, deltas, ids); err != nil {
		return nil, err
	}
	own := map[psg.RequestID]bool{}
	for _, id := range ids {
		own[id] = true
	}
	for i := range verdicts {
		c.wanted(&verdicts[i], &workloads[i], own)
	}
	return verdicts, c.unplanned(ids, verdicts)
}

// planAsks are the definitions of the workloads and an ask for each instance
// that has no place yet.
func (c *Controller) planAsks(request psg.RequestID, workloads []psg.Workload) (deltas []psg.Delta, ids []psg.RequestID, err error) {
	now := time.Now()
	for g, w := range workloads {
		known, live := c.standingOf(w.ID)
		missing := w.Count - live
		if !startsByAsking(&w) || missing <= 0 {
			continue
		}
		if missing > maxPlanned-len(ids) {
			return nil, nil, fmt.Errorf("%s: %d instances of the job to place at once, at most %d: %w", w.ID, len(ids)+missing, maxPlanned, psg.ErrInvalid)
		}
		if w, changed := draft(w, known); changed {
			deltas = append(deltas, psg.WorkloadChanged{Workload: w})
		}
		for i := range missing {
			ask := psg.Ask{ID: psg.RequestID(fmt.Sprintf("%s/%d-%d", request, g, i)), Workload: w.ID, At: now, Hold: planHold}
			deltas, ids = append(deltas, psg.Asked{Ask: ask}), append(ids, ask.ID)
		}
	}
	return deltas, ids, nil
}

// draft is a workload as it would be registered, and whether that is not how it is
// known. It has no version, which nothing about it may be remembered by.
func draft(w psg.Workload, known *psg.Workload) (psg.Workload, bool) {
	w.Version, w.Held = 0, false
	if known == nil {
		return w, true
	}
	same := *known
	same.Version = 0
	return w, !reflect.DeepEqual(same, w)
}

// standingOf returns a workload as it is known, and how many of its instances
// have a place or an allocation, and are not about to end.
func (c *Controller) standingOf(id psg.WorkloadID) (known *psg.Workload, live int) {
	c.view(func(s *ledger.State) {
		known = s.Workload(id)
		_, asks := s.Job(id.JobID())
		for _, status := range asks {
			if status.Ask.Workload == id && status.State != psg.Ending {
				live++
			}
		}
	})
	return known, live
}

// decided submits deltas and waits until each of the asks among them has an
// answer.
func (c *Controller) decided(ctx context.Context, deltas []psg.Delta, ids []psg.RequestID) error {
	if len(deltas) == 0 {
		return nil
	}
	poll, err := c.polls.open(ids)
	if err != nil {
		return err
	}
	defer c.polls.close(poll)
	if err := c.inbox.submit(deltas...); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, planWithin)
	defer cancel()
	for {
		_, _, fresh := c.answers(ids, 0)
		if err := c.mustLead(); err != nil {
			return err
		}
		if fresh {
			return nil
		}
		select {
		case <-poll.told:
		case <-ctx.Done():
			return nil // what has no answer yet has no room yet
		}
	}
}

// wanted fills in a verdict with where the instances stand now, and which of the
// asks of the registration itself wait.
func (c *Controller) wanted(v *psg.Verdict, w *psg.Workload, own map[psg.RequestID]bool) {
	workloads, asks := c.job(w.ID.JobID())
	v.Hint = hints(workloads, asks)[w.ID.Group]
	for _, status := range asks {
		if status.Ask.Workload != w.ID || status.Placement != nil || !own[status.Ask.ID] {
			continue
		}
		waiting := psg.Refusal{Ask: status.Ask.ID, State: psg.Queued, Summary: notDecided}
		if status.Refusal != nil {
			waiting = *status.Refusal
		}
		v.Waiting = append(v.Waiting, waiting)
	}
	v.Hold = w.Gang != "" && len(v.Waiting) > 0
}

// unplanned ends the asks that found no room, and all of what is to be held: the
// orchestrator's own allocations, or the hold, ask in their place.
func (c *Controller) unplanned(ids []psg.RequestID, verdicts []psg.Verdict) error {
	held := map[psg.WorkloadID]bool{}
	for _, v := range verdicts {
		held[v.Workload] = v.Hold
	}
	var freed []psg.Delta
	now := time.Now()
	for _, id := range ids {
		status, known := c.Ask(id)
		if known && !status.Over() && (status.Placement == nil || held[status.Ask.Workload]) {
			freed = append(freed, psg.Freed{Ask: id, State: psg.Released, Reason: "the registration does not wait for it", At: now})
		}
	}
	return c.inbox.submit(freed...)
}

// Abandon gives back what Plan reserved for a registration that failed, and
// makes its workloads what the orchestrator says they are.
func (c *Controller) Abandon(ctx context.Context, request psg.RequestID, workloads []psg.WorkloadID) error {
	if err := c.mustLead(); err != nil {
		return err
	}
	var deltas []psg.Delta
	now := time.Now()
	for _, id := range workloads {
		_, asks := c.job(id.JobID())
		for _, status := range asks {
			if status.Ask.Workload == id && strings.HasPrefix(string(status.Ask.ID), string(request)+"/") {
				deltas = append(deltas, psg.Freed{Ask: status.Ask.ID, State: psg.Released, Reason: "the registration failed", At: now})
			}
		}
		known, _ := c.standingOf(id)
		real, err := c.jobs.Workload(ctx, id)
		switch {
		case known == nil:
		case err == nil && real.Version >= known.Version:
			deltas = append(deltas, psg.WorkloadChanged{Workload: real})
		case errors.Is(err, psg.ErrUnknown):
			deltas = append(deltas, psg.WorkloadGone{Workload: id})
		}
	}
	return c.inbox.submit(deltas...)
}
