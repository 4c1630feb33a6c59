package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/placement"
)

const (
	// stepRetry is the first wait of a step that must not begin just now, such as
	// while its job is deployed; it doubles up to stepRetryMax.
	stepRetry    = time.Second
	stepRetryMax = 15 * time.Second
	// othersWithin is how long a step waits for what others do with its job.
	othersWithin = 2 * time.Minute
	// stepLook is between two looks whether a step has ended.
	stepLook = 100 * time.Millisecond
)

// carry makes moves that pay only together, each once the one before it has ended:
// its successor runs, and its room is free. All of them are rehearsed before each.
//
//	rehearsed ─▶ reserved ─▶ begun ─▶ ended ─┬─▶ the next, if there is one
//	    └────────────┴─────────┴─▶ stopped   └─▶ done
//
// Where it stops, every instance runs where it was or where it was to come to, and
// the moves that were made stay: what would pay from there is for the next look. So
// it is for the next leader: nothing of a chain is recorded but its moves.
func (c *Controller) carry(ctx context.Context, moves []placement.Move, to Orchestrator) error {
	log := c.config.Log.With("moves", len(moves), "workload", moves[0].Placement.Ask.Workload)
	trips := tripsOf(moves)
	if id, err := c.spared(moves); err != nil {
		log.Info("exchange not begun", "reason", err)
		c.unrest.inVain(id, time.Now())
		return nil
	}
	for i := range moves {
		ended, begun, err := c.step(ctx, moves, i, to)
		if ctx.Err() != nil || errors.Is(err, psg.ErrNotLeader) {
			return err
		}
		if err != nil {
			if i == 0 && !begun {
				log.Info("exchange not begun", "reason", err)
			} else {
				log.Warn("exchange stopped half-way", "made", i, "reason", err)
			}
			if !errors.Is(err, errPast) {
				c.unrest.inVain(moves[i].Placement.Ask.Workload, time.Now())
			}
			return nil
		}
		for j := i + 1; j < len(moves); j++ {
			if ask := &moves[j].Placement.Ask; ask.Alloc == ended.Alloc {
				ask.ID, ask.Alloc = psg.RequestID(ended.Successor), ended.Successor
			}
		}
	}
	for _, t := range trips {
		c.unrest.moved(t.workload, t.from, t.to, time.Now())
	}
	log.Info("exchanged")
	return nil
}

// trip is where an instance comes to by all of a chain's moves.
type trip struct {
	alloc    psg.AllocID
	workload psg.WorkloadID
	from, to psg.NodeID
}

func tripsOf(moves []placement.Move) (trips []trip) {
	for i := range moves {
		p := &moves[i].Placement
		known := slices.IndexFunc(trips, func(t trip) bool { return t.alloc == p.Ask.Alloc })
		if known >= 0 {
			trips[known].to = p.Node
		} else {
			trips = append(trips, trip{p.Ask.Alloc, p.Ask.Workload, moves[i].From, p.Node})
		}
	}
	return trips
}

// spared reports why a chain must not begin: one of the groups that it moves can
// spare none as things stand, however its turn comes; and which. Nil means that all
// can.
func (c *Controller) spared(moves []placement.Move) (psg.WorkloadID, error) {
	type spot struct {
		workload psg.WorkloadID
		node     psg.NodeID
	}
	came := map[spot]int{} // by the moves before
	for i := range moves {
		id, from := moves[i].Placement.Ask.Workload, moves[i].From
		if err := c.mayMove(id.JobID()); err != nil {
			return id, fmt.Errorf("move %s: %w", id, err)
		}
		workload, there := c.groupOn(id, from)
		if workload == nil {
			return id, fmt.Errorf("move %s: %w", id, psg.ErrUnknown)
		}
		first := startsFirst(workload) && there+came[spot{id, from}] == 1
		if !first && (mustStartFirst(workload) || !c.spares(id)) {
			return id, fmt.Errorf("move %s: its group can spare none: %w", id, psg.ErrBusy)
		}
		came[spot{id, from}]--
		came[spot{id, moves[i].Placement.Node}]++
	}
	return psg.WorkloadID{}, nil
}

// step makes one of a chain's moves and waits for its end, and reports whether it has
// begun.
func (c *Controller) step(ctx context.Context, chain []placement.Move, at int, to Orchestrator) (end psg.Move, begun bool, err error) {
	moves, until := chain[at:], time.Now().Add(c.patience(chain, at))
	for wait := stepRetry; ; wait = min(2*wait, stepRetryMax) {
		ended := c.steers.ends()
		wanted, err := c.beginStep(ctx, moves, to)
		if err == nil {
			end, err = c.await(ctx, &wanted, ended)
			return end, true, err
		}
		if !errors.Is(err, psg.ErrBusy) || time.Now().Add(wait).After(until) {
			return end, false, err
		}
		select {
		case <-ctx.Done():
			return end, false, ctx.Err()
		case <-time.After(wait):
		}
	}
}

// patience is how long a step waits for what cannot begin just now: the first not at
// all; others as long as a deployment may take that the chain itself has caused, or as
// others are waited for, since no look finds anything meanwhile.
func (c *Controller) patience(chain []placement.Move, at int) time.Duration {
	id := chain[at].Placement.Ask.Workload
	workload, _ := c.groupOn(id, chain[at].From)
	own := slices.ContainsFunc(chain[:at], func(m placement.Move) bool { return m.Placement.Ask.Workload.JobID() == id.JobID() })
	switch {
	case at == 0 || workload == nil:
		return 0
	case own:
		return healthyWithin(workload)
	}
	return othersWithin
}

// beginStep begins the first of some moves, if all of them can still be made and
// pay.
func (c *Controller) beginStep(ctx context.Context, moves []placement.Move, to Orchestrator) (wantedMove, error) {
	within, cancel := context.WithTimeout(ctx, c.steers.within)
	defer cancel()
	done, err := c.steers.turn(within)
	if err != nil {
		return wantedMove{}, err
	}
	defer done()
	wanted, err := c.wantedOf(&moves[0])
	if err != nil {
		return wanted, err
	}
	stage, err := c.stage(within, moves)
	if err == nil {
		err = stage.rehearse(moves)
	}
	if err != nil {
		return wanted, err
	}
	orders, err := c.begin(within, []wantedMove{wanted}, allowance{now: 1, together: 1, alone: 1}, to)
	if err == nil && len(orders) == 0 {
		err = fmt.Errorf("its group can spare none just now: %w", psg.ErrBusy)
	}
	return wanted, err
}

// await waits until a move that was begun has ended. The error is why it did not
// end well, that ctx did, or psg.ErrNotLeader.
func (c *Controller) await(ctx context.Context, wanted *wantedMove, before int) (psg.Move, error) {
	look := time.NewTicker(stepLook)
	defer look.Stop()
	until := time.Now().Add(recordFor + time.Minute)
	for {
		ended, over := c.steers.endedSince(before, wanted.source.Ask.Alloc)
		switch {
		case over && ended.GivenUp != "":
			return ended, fmt.Errorf("the move to %s was given up: %s", ended.To, ended.GivenUp)
		case over:
			return ended, nil
		case c.astray(wanted):
			return ended, fmt.Errorf("its successor did not come to %s", wanted.to[0])
		case time.Now().After(until):
			return ended, errors.New("its end was not seen")
		}
		if err := c.mustLead(); err != nil {
			return ended, err
		}
		select {
		case <-ctx.Done():
			return ended, ctx.Err()
		case <-look.C:
		}
	}
}

// astray reports whether an allocation that moves is gone, and no other of its
// group has come to where it was to come to, or could yet come there.
func (c *Controller) astray(wanted *wantedMove) bool {
	id := wanted.source.Ask.Workload
	if source, known := c.Ask(wanted.source.Ask.ID); known && !source.Over() {
		return false
	}
	_, asks := c.job(id.JobID())
	for _, status := range asks {
		if on(&status, id, wanted.to[0]) && !wanted.there[status.Ask.ID] {
			return false
		}
	}
	return true
}

// on reports whether an ask of a workload has a place on a node.
func on(s *psg.AskStatus, id psg.WorkloadID, node psg.NodeID) bool {
	return s.Ask.Workload == id && s.Placement != nil && s.Placement.Node == node
}

// ends is how many moves have ended.
func (s *steers) ends() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.figures.Moves + s.figures.GivenUp
}

// endedSince is how the move of an allocation ended, if it is among those that did
// after so many others.
func (s *steers) endedSince(before int, alloc psg.AllocID) (psg.Move, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	since := s.figures.Moves + s.figures.GivenUp - before
	for _, m := range s.finished[max(0, len(s.finished)-since):] {
		if m.Alloc == alloc {
			return m, true
		}
	}
	return psg.Move{}, false
}
