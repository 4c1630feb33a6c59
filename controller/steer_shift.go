package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/psgrid/psg"
)

const (
	shiftPoll = 500 * time.Millisecond // between two looks at a shift that runs
	// shiftWithin is the longest a shift may take beyond the time in which the
	// group's instances must become healthy, and straySince how long a successor
	// may wait at another node than it is planned on.
	shiftWithin = time.Minute
	maxHealthy  = 10 * time.Minute
	straySince  = 5 * time.Second
)

// shift is a move of all instances of a group off a node, others first.
//
//	reserved ─▶ moving ─▶ registered ─▶ healthy: Nomad stops the sources ─▶ steady hint
//	                          └─▶ failed, a destination lost, or time is over ─▶ steady hint, sources kept
//
// What of it has yet to be done is in Nomad, and in the ledger as the workload's
// Shifting and its asks that are moving: the next leader goes on with that.
type shift struct {
	workload psg.WorkloadID
	from     psg.NodeID
	legs     []leg
	until    time.Time
	record   *record
}

// startsFirst reports whether instances of a workload are moved by starting
// others first: it says so, or it allows it. Volumes that are written to may not
// bear two instances.
func startsFirst(w *psg.Workload) bool {
	if w.Disruption != nil && w.Disruption.Order != "" {
		return w.Disruption.Order == psg.StartFirst
	}
	writes := slices.ContainsFunc(w.Volumes, func(v psg.VolumeAsk) bool { return !v.ReadOnly })
	return w.Type == psg.Service && w.Gang == "" && !writes &&
		w.Update != nil && w.Update.MaxParallel > 0 && w.Update.HealthCheck != "manual"
}

// shift begins to move the instances that a group has on a node. On an error all
// of them stay: what is, or may be, registered with Nomad is under way, and ends as
// any other.
func (c *Controller) shift(ctx context.Context, w *psg.Workload, moves []wantedMove, to Orchestrator) ([]psg.Order, error) {
	if err := c.mayRegister(w.ID.JobID())(); err != nil {
		return nil, err
	}
	s := &shift{workload: w.ID, from: moves[0].from(), until: time.Now().Add(healthyWithin(w))}
	sources := make([]psg.AskStatus, len(moves))
	for i := range moves {
		sources[i] = moves[i].source
	}
	s.record = c.newRecord(sources, true)
	changed, err := c.register(ctx, s, moves, to)
	if err != nil && !changed {
		ctx, cancel := uninterrupted(ctx)
		defer cancel()
		return nil, errors.Join(err, c.undo(ctx, s.legs, "the move was given up"))
	}
	if err != nil {
		c.config.Log.Warn("a move may have been registered: it is looked after", "workload", w.ID, "from", s.from, "error", err)
	}
	s.record.wrote(changed, 0)
	c.steers.record(s.record, s.legs)
	c.steers.begin(w.ID.JobID(), s, time.Now().Add(shiftPoll))
	c.config.Log.Info("moving, others first", "workload", w.ID, "from", s.from, "moves", len(moves), "new_version", changed)
	orders := make([]psg.Order, len(moves))
	for i, source := range sources {
		orders[i] = psg.Order{
			Kind: psg.Steer, Epoch: c.epoch(), Sequence: source.Sequence, Ask: source.Ask.ID,
			Workload: w.ID, Alloc: source.Ask.Alloc, Node: s.legs[i].to,
		}
	}
	return orders, nil
}

// register reserves the room of a shift and has the job registered with it, and
// reports whether it was, whatever failed.
func (c *Controller) register(ctx context.Context, s *shift, moves []wantedMove, to Orchestrator) (bool, error) {
	for i := range moves {
		room, err := c.destination(ctx, &moves[i])
		if err != nil {
			return false, err
		}
		s.legs = append(s.legs, leg{moves[i].source.Ask.ID, room.Ask.ID, room.Node})
	}
	ctx, cancel := uninterrupted(ctx)
	defer cancel()
	for i := range moves {
		why := fmt.Sprintf("moves to %s: another is started there first", s.legs[i].to)
		if err := c.moving(ctx, &moves[i].source, why); err != nil {
			return false, err
		}
	}
	job := s.workload.JobID()
	workloads, asks := c.job(job)
	asks = without(asks, s.legs)
	changed, err := c.steer(ctx, psg.Steering{
		Job: job, Hints: hints(workloads, asks),
		Shifts: map[string]psg.Shift{s.workload.Group: {From: s.from, Moves: len(s.legs)}},
	}, to)
	if err != nil && !changed {
		return false, err
	}
	var rooms []psg.AskStatus
	for _, l := range s.legs {
		if room, known := c.Ask(l.room); known {
			rooms = append(rooms, room)
		}
	}
	return changed, errors.Join(err, c.steered(ctx, rooms))
}

// healthyWithin is how long successors of a workload's instances may take.
func healthyWithin(w *psg.Workload) time.Duration {
	if w.Update == nil {
		return shiftWithin
	}
	return min(w.Update.HealthyDeadline, maxHealthy) + w.Update.MinHealthy + shiftWithin
}

// resumed is the shift of a job that an earlier leader has begun. Of what Nomad stops
// already, that is a part of it which has its room yet, or leaves the same node.
func resumed(workloads []psg.Workload, asks []psg.AskStatus, now time.Time) *shift {
	for i := range workloads {
		w := &workloads[i]
		if !w.Shifting {
			continue
		}
		s := &shift{workload: w.ID, until: now.Add(healthyWithin(w))}
		var ending []psg.AskStatus
		for _, status := range asks {
			if status.Ask.Workload != w.ID || status.Ask.Alloc == "" || status.Placement == nil {
				continue
			}
			switch l := resumedLeg(status.Ask.ID, asks); {
			case status.State == psg.Moving || l.room != "": // Nomad may yet see it running
				s.from = status.Placement.Node
				s.legs = append(s.legs, l)
			case status.State == psg.Ending:
				ending = append(ending, status)
			}
		}
		for _, status := range ending {
			if s.from == "" || s.from == status.Placement.Node {
				s.from = status.Placement.Node
				s.legs = append(s.legs, leg{source: status.Ask.ID})
			}
		}
		return s
	}
	return nil
}

// resumedLeg is one instance of such a shift, with its room unless a successor
// has that already.
func resumedLeg(source psg.RequestID, asks []psg.AskStatus) leg {
	for _, status := range asks {
		if status.Placement != nil && reservedFor(status.Ask.ID, movePrefix, source) {
			return leg{source, status.Ask.ID, status.Placement.Node}
		}
	}
	return leg{source: source}
}

// settle goes on with a shift: it waits, gives up, or sets the steady hint.
func (c *Controller) settle(ctx context.Context, s *shift, to Orchestrator) error {
	job := s.workload.JobID()
	state, err := to.Shifting(ctx, job)
	switch {
	case errors.Is(err, psg.ErrUnknown):
		state = psg.ShiftGone
	case err != nil:
		return err
	}
	switch state {
	case psg.ShiftDone:
		return c.steady(ctx, s, "", to)
	case psg.ShiftFailed:
		return c.steady(ctx, s, "its successor did not become healthy", to)
	case psg.ShiftGone:
		c.steers.end(job, c.versionOf(job))
		if c.left(s) { // another leader has set the steady hint, or somebody else that came too late
			s.record.settle()
		} else {
			s.record.giveUp("the job was changed meanwhile")
		}
		return c.undo(ctx, s.legs, "the job was changed while it moved")
	}
	if why := c.spoilt(s, time.Now()); why != "" {
		return c.steady(ctx, s, why, to)
	}
	c.steers.again(job, time.Now().Add(shiftPoll))
	return nil
}

// left reports whether all that a shift moves has ended.
func (c *Controller) left(s *shift) bool {
	return !slices.ContainsFunc(s.legs, func(l leg) bool { source, _ := c.Ask(l.source); return !source.Over() })
}

// spoilt says why a shift that runs cannot come to a good end.
func (c *Controller) spoilt(s *shift, now time.Time) string {
	view := c.Snapshot()
	for _, l := range s.legs {
		row, known := view.Row(l.to)
		if l.to != "" && (!known || !view.Nodes[row].Ready) {
			return fmt.Sprintf("its destination %s is lost", l.to)
		}
		if room, known := c.Ask(l.room); known && room.State == psg.Lost {
			return fmt.Sprintf("its room on %s is lost", l.to)
		}
	}
	for _, status := range c.statuses() {
		switch {
		case status.Ask.Workload != s.workload || status.Ask.Alloc == "":
		case stray(status) && now.Sub(status.Since) > straySince:
			return fmt.Sprintf("its successor came to %s, which is not where it is planned", status.Ask.Node)
		case status.Over() && s.record.since(status):
			return fmt.Sprintf("its successor %.8s has ended: %s", status.Ask.Alloc, cmp.Or(status.Reason, string(status.State)))
		}
	}
	if now.After(s.until) {
		return "its successor was not healthy in time"
	}
	return ""
}

// steady sets the hint for where the job runs from now on and so ends its shift:
// without the sources, or, when it is given up for a reason, with them.
func (c *Controller) steady(ctx context.Context, s *shift, why string, to Orchestrator) error {
	job := s.workload.JobID()
	workloads, asks := c.job(job)
	if why != "" {
		asks = kept(asks, s.legs)
	} else {
		asks = without(asks, s.legs) // Nomad may yet see them running
	}
	wanted := hints(workloads, asks)
	if wanted[s.workload.Group] == nil {
		wanted[s.workload.Group] = psg.Hint{}
	}
	changed, err := c.steer(ctx, psg.Steering{Job: job, Hints: wanted, Abandon: why != ""}, to)
	if err != nil && !errors.Is(err, psg.ErrUnknown) {
		return err
	}
	c.steers.end(job, c.versionOf(job))
	s.record.wrote(changed, 0)
	s.record.settle()
	if why == "" {
		c.steers.rested(job)
		c.config.Log.Info("moved, others first", "workload", s.workload, "from", s.from, "moves", len(s.legs))
		return nil
	}
	s.record.giveUp(why)
	c.steers.rest(job, time.Now())
	c.config.Log.Warn("move given up, the source runs on", "workload", s.workload, "from", s.from, "reason", why)
	return c.undo(ctx, s.legs, "not moved: "+why)
}

// kept are the asks as they stand when the legs are given up.
func kept(asks []psg.AskStatus, legs []leg) []psg.AskStatus {
	sources, rooms := map[psg.RequestID]bool{}, map[psg.RequestID]bool{}
	for _, l := range legs {
		sources[l.source], rooms[l.room] = true, true
	}
	out := slices.DeleteFunc(slices.Clone(asks), func(a psg.AskStatus) bool { return rooms[a.Ask.ID] })
	for i := range out {
		if sources[out[i].Ask.ID] && out[i].State != psg.Ending {
			out[i].State = psg.Running
		}
	}
	return out
}
