package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/ledger"
)

const (
	movePrefix = "move/" // begins the IDs of asks for the destination of a move
	// maxMoves is how many moves one request may begin, and maxDestinations how
	// many nodes are tried for each.
	maxMoves        = 64
	maxDestinations = 16
	usualMoves      = 8
	// maxRebalances is how many requests may wait for each other, the one that is
	// carried out included, and rebalanceWithin how long one takes at most: it
	// waits for a cycle for each of its destinations.
	maxRebalances   = 8
	rebalanceWithin = time.Minute
)

// Rebalance begins to move what runs on a node to others: all of it to empty the
// node, else what is better placed elsewhere, as many allocations as their groups
// can spare now and at most so many as are asked for. It reserves each
// destination before it hints, and hints before it stops: a move whose
// destination cannot be had, or is lost, leaves its source running. Where the
// group allows it, others are started first, and the source is stopped when they
// are healthy; a group's instances on the node then move together, or, where they
// are more than were asked for, in the other order if it allows that. Those that
// nobody has bounded may be more than the usual few. It ends in time, with what it
// has begun until then: neither that nor a caller who leaves interrupts a move.
//
// What Nomad places by itself, what runs on every node, and what policy protects
// stays. Moves are not counted against the stages of a job: nothing moves
// unasked. Whoever wants the node empty asks again until nothing is ordered.
//
// Errors: psg.ErrUnknown (no such node), psg.ErrBusy (too many ask for moves),
// psg.ErrNotLeader, psg.ErrUnavailable (nobody carries moves out).
func (c *Controller) Rebalance(ctx context.Context, r psg.Rebalance) (psg.Rebalanced, error) {
	if err := c.mustLead(); err != nil {
		return psg.Rebalanced{}, err
	}
	to := c.steers.orchestrator()
	if to == nil {
		return psg.Rebalanced{}, fmt.Errorf("move what runs on %s: nothing carries out moves: %w", r.Node, psg.ErrUnavailable)
	}
	within, cancel := context.WithTimeout(ctx, c.steers.within)
	defer cancel()
	done, err := c.steers.turn(within) // two that count at once what can be spared would both take it
	if err != nil {
		return psg.Rebalanced{}, err
	}
	defer done()
	moves, err := c.wantedMoves(within, r)
	if err != nil {
		return psg.Rebalanced{}, err
	}
	out := psg.Rebalanced{Finished: c.steers.finishedFrom(r.Node)}
	out.Orders, err = c.beginAll(within, moves, r.Max, to)
	out.Stays = c.stays(ctx, r, moves)
	if within.Err() != nil && ctx.Err() == nil {
		c.config.Log.Warn("moves begun as far as there was time", "node", r.Node, "moves", len(out.Orders))
		return out, nil
	}
	return out, err
}

// wantedMove is an allocation that is to leave its node.
type wantedMove struct {
	source psg.AskStatus
	to     []psg.NodeID           // the nodes to try, the best first
	stays  string                 // why it was not begun
	there  map[psg.RequestID]bool // of its group, on the first of to; of moves that were found
}

func (m *wantedMove) from() psg.NodeID { return m.source.Placement.Node }

// wantedMoves are the moves that a request is for. Those of one group off one
// node follow each other.
func (c *Controller) wantedMoves(ctx context.Context, r psg.Rebalance) ([]wantedMove, error) {
	if !r.Empty {
		return c.improvements(ctx, r)
	}
	sources, err := c.movable(ctx, r.Node)
	if err != nil {
		return nil, err
	}
	roomiest := c.roomiest(c.steers.empties(r.Node, time.Now()))
	moves := make([]wantedMove, len(sources))
	for i := range sources {
		moves[i] = wantedMove{source: sources[i], to: roomiest}
	}
	return moves, nil
}

// move moves one allocation by stopping it: another starts in its place.
func (c *Controller) move(ctx context.Context, wanted *wantedMove, to Orchestrator) (psg.Order, error) {
	source, from := &wanted.source, wanted.from()
	job := source.Ask.Workload.JobID()
	if err := c.mayRegister(job)(); err != nil {
		return psg.Order{}, err
	}
	record := c.newRecord([]psg.AskStatus{*source}, false)
	room, err := c.destination(ctx, wanted)
	if err != nil {
		return psg.Order{}, err
	}
	legs := []leg{{source.Ask.ID, room.Ask.ID, room.Node}}
	ctx, cancel := uninterrupted(ctx)
	defer cancel()
	held, changed, err := c.sendAway(ctx, source, legs, to)
	switch {
	case errors.Is(err, psg.ErrNotLeader):
		return psg.Order{}, err // for the next leader to end: see leftBehind
	case err != nil:
		err = errors.Join(err, c.undo(ctx, legs, "the move was given up"))
		if changed { // nothing goes there now, nor is hinted there and back again and again
			c.steers.lose(job, room.Node, time.Now())
			c.steers.rest(job, time.Now())
		}
		return psg.Order{}, err
	}
	c.steers.rested(job)
	c.steers.stops(1)
	record.wrote(changed, 1)
	record.settle()
	c.steers.record(record, legs)
	c.config.Log.Info("moving", "alloc", source.Ask.Alloc, "workload", source.Ask.Workload, "from", from, "to", room.Node, "new_version", changed)
	return psg.Order{
		Kind: psg.Stop, Epoch: c.epoch(), Sequence: held.Sequence, Ask: source.Ask.ID,
		Workload: source.Ask.Workload, Alloc: source.Ask.Alloc, Node: room.Node,
	}, nil
}

// sendAway hints to where an allocation's successor has room, and stops it. It returns
// how that room stands and, whatever failed, whether the job may have been hinted.
func (c *Controller) sendAway(ctx context.Context, source *psg.AskStatus, legs []leg, to Orchestrator) (held psg.AskStatus, changed bool, err error) {
	from, dest := source.Placement.Node, legs[0].to
	if err := c.moving(ctx, source, fmt.Sprintf("moves to %s: it is stopped, and another started there", dest)); err != nil {
		return held, false, err
	}
	job := source.Ask.Workload.JobID()
	workloads, asks := c.job(job)
	changed, err = c.steer(ctx, psg.Steering{Job: job, Hints: hints(workloads, without(asks, legs))}, to)
	switch {
	case errors.Is(err, psg.ErrUnknown) && c.ready(from):
		return held, changed, fmt.Errorf("no hint leads Nomad elsewhere, which may start it on %s again: %s: %w", from, untold(err), psg.ErrBusy)
	case err != nil && !errors.Is(err, psg.ErrUnknown):
		return held, changed, err
	}
	if held, _ = c.Ask(legs[0].room); held.Placement == nil {
		return held, changed, fmt.Errorf("the room on %s is lost: %w", dest, psg.ErrBusy)
	}
	if err := c.steered(ctx, []psg.AskStatus{held}); err != nil {
		return held, changed, err
	}
	if err := c.mustLead(); err != nil {
		return held, changed, err
	}
	err = to.Stop(ctx, source.Ask.Alloc)
	if errors.Is(err, psg.ErrUnavailable) {
		c.config.Log.Warn("what moves may have been stopped: it is looked after", "alloc", source.Ask.Alloc, "error", err)
		err = nil
	}
	return held, changed, err
}

// ready reports whether work may start on a node.
func (c *Controller) ready(id psg.NodeID) (ready bool) {
	c.view(func(s *ledger.State) {
		node := s.Node(id)
		ready = node != nil && node.Ready
	})
	return ready
}

// leg is one instance of a move: what leaves, and the room that is reserved for
// its successor.
type leg struct {
	source, room psg.RequestID
	to           psg.NodeID
}

// without are the asks that do not leave.
func without(asks []psg.AskStatus, legs []leg) []psg.AskStatus {
	return slices.DeleteFunc(asks, func(s psg.AskStatus) bool {
		return slices.ContainsFunc(legs, func(l leg) bool { return l.source == s.Ask.ID })
	})
}

// undo leaves what was to move where it runs, and gives back the room: what is
// begun next may count on that.
func (c *Controller) undo(ctx context.Context, legs []leg, why string) error {
	var back []psg.Delta
	var rooms []psg.RequestID
	now := time.Now()
	for _, l := range legs {
		back = append(back, psg.Moved{Ask: l.source, State: psg.Running, Reason: why, At: now})
		if l.room != "" {
			back = append(back, psg.Freed{Ask: l.room, State: psg.Released, Reason: why, At: now})
			rooms = append(rooms, l.room)
		}
	}
	if err := c.Report(ctx, back); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, reserveWithin)
	defer cancel()
	if err := c.over(ctx, rooms); err != nil {
		return fmt.Errorf("give back the room of %d moves: %w", len(rooms), err)
	}
	return nil
}

// moving records that an allocation is about to move, and waits until that is
// committed.
func (c *Controller) moving(ctx context.Context, source *psg.AskStatus, why string) error {
	poll, err := c.polls.open([]psg.RequestID{source.Ask.ID})
	if err != nil {
		return err
	}
	defer c.polls.close(poll)
	if err := c.Report(ctx, []psg.Delta{psg.Moved{Ask: source.Ask.ID, State: psg.Moving, Reason: why, At: time.Now()}}); err != nil {
		return err
	}
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for {
		if now, _ := c.Ask(source.Ask.ID); now.State == psg.Moving {
			return nil
		} else if now.Over() || now.State == psg.Ending {
			return fmt.Errorf("allocation %s has ended, or is about to: %w", source.Ask.Alloc, psg.ErrBusy)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-poll.told:
		case <-look.C:
		}
	}
}

func (c *Controller) epoch() psg.Epoch {
	_, epoch, _ := c.Position()
	return epoch
}
