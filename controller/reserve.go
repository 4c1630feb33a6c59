package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/ledger"
)

// resize is a waiting request to change what an allocation holds.
type resize struct {
	psg.Reservation
	refused error      // set by the cycle that decides it
	answer  chan error // buffered: told once, after the commit
}

// Reserve holds room for a workload's instances, all or none; gives a
// reservation back; or changes what a running allocation holds, which changes
// PSG's account of it and, where an agent enforces limits, its limits, but not
// Nomad's.
//
// It returns what is held, or why it is not. Errors: psg.ErrInvalid,
// psg.ErrUnknown, psg.ErrBusy, psg.ErrNotLeader.
func (c *Controller) Reserve(ctx context.Context, r psg.Reservation) ([]psg.Placement, []psg.Refusal, error) {
	if err := errors.Join(r.Validate(), checkID(r.ID)); err != nil {
		return nil, nil, err
	}
	switch {
	case r.Release:
		return nil, nil, c.giveBack(ctx, r)
	case r.Alloc != "":
		return c.resize(ctx, r)
	default:
		return c.reserve(ctx, r)
	}
}

// reserve holds room, under an ID of the controller's own or another.
func (c *Controller) reserve(ctx context.Context, r psg.Reservation) ([]psg.Placement, []psg.Refusal, error) {
	asks := make([]psg.Ask, r.Count)
	for i := range asks {
		asks[i] = r.Ask(i, time.Now())
	}
	if _, _, err := c.place(ctx, asks, 0); err != nil {
		return nil, nil, err
	}
	var held []psg.Placement
	var refusals []psg.Refusal
	ended := false
	c.view(func(s *ledger.State) {
		for _, ask := range asks {
			status := s.Ask(ask.ID)
			ended = ended || status != nil && status.Over()
			switch {
			case status == nil:
			case status.Placement != nil:
				held = append(held, *status.Placement)
			case status.Refusal != nil:
				refusals = append(refusals, *status.Refusal)
			}
		}
	})
	if len(held) == r.Count {
		return held, nil, nil
	}
	if err := c.giveBack(ctx, r); err != nil { // all or none
		return nil, nil, err
	}
	switch {
	case len(refusals) > 0:
		return nil, refusals, nil
	case ended:
		return nil, nil, fmt.Errorf("reservation %s is over; a new one needs another ID: %w", r.ID, psg.ErrInvalid)
	default:
		return nil, nil, fmt.Errorf("reservation %s was not decided in time: %w", r.ID, psg.ErrUnavailable)
	}
}

// giveBack frees whatever a reservation holds or still waits for, and returns
// once that is committed. What of its count no cycle has taken in yet is given
// back by the one that does.
func (c *Controller) giveBack(ctx context.Context, r psg.Reservation) error {
	if err := c.mustLead(); err != nil {
		return err
	}
	var freed []psg.Delta
	var ids []psg.RequestID
	now := time.Now()
	c.view(func(s *ledger.State) {
		for i := range psg.MaxReservationCount {
			id := r.Ask(i, now).ID
			status := s.Ask(id)
			if status == nil && i >= r.Count { // below that it may wait for a cycle
				break
			}
			ids = append(ids, id)
			if status == nil || !status.Over() {
				freed = append(freed, psg.Freed{Ask: id, State: psg.Released, Reason: "reservation given back", At: now})
			}
		}
	})
	if err := c.end(ctx, freed, ids); err != nil {
		return fmt.Errorf("give back reservation %s: %w", r.ID, err)
	}
	return nil
}

// end submits the ends of asks, and returns once all that are named are over and
// that is committed.
func (c *Controller) end(ctx context.Context, freed []psg.Delta, ids []psg.RequestID) error {
	if err := c.inbox.submit(freed...); err != nil {
		return err
	}
	return c.over(ctx, ids)
}

// over waits until asks are over and that is committed.
func (c *Controller) over(ctx context.Context, ids []psg.RequestID) error {
	poll, err := c.polls.open(ids)
	if err != nil {
		return err
	}
	defer c.polls.close(poll)
	for {
		over := c.committedOver(ids)
		if err := c.mustLead(); err != nil || over {
			return err
		}
		select {
		case <-poll.told:
		case <-ctx.Done():
			return fmt.Errorf("not committed in time: %w", psg.ErrUnavailable)
		}
	}
}

// committedOver reports whether asks are over, and the records that say so in
// the log.
func (c *Controller) committedOver(ids []psg.RequestID) bool {
	over := true
	c.view(func(s *ledger.State) {
		for _, id := range ids {
			status := s.Ask(id)
			over = over && (status == nil || status.Over() && status.Sequence <= s.Sequence())
		}
	})
	return over
}

func (c *Controller) resize(ctx context.Context, r psg.Reservation) ([]psg.Placement, []psg.Refusal, error) {
	if err := c.mustLead(); err != nil {
		return nil, nil, err
	}
	waiting := &resize{Reservation: r, answer: make(chan error, 1)}
	if err := c.inbox.resize(waiting); err != nil {
		return nil, nil, err
	}
	select {
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	case refused := <-waiting.answer:
		if errors.Is(refused, psg.ErrNotLeader) {
			return nil, nil, refused
		}
		if refused != nil {
			return nil, []psg.Refusal{{Ask: psg.RequestID(r.Alloc), State: psg.Queued, Summary: refused.Error()}}, nil
		}
	}
	var held []psg.Placement
	c.view(func(s *ledger.State) {
		if status := s.Ask(psg.RequestID(r.Alloc)); status != nil && status.Placement != nil {
			held = append(held, *status.Placement)
		}
	})
	return held, nil, nil
}

// decideResizes returns the placements whose new size fits, in the order they
// were asked for, and notes why the others do not.
func (c *Controller) decideResizes(resizes []*resize) []psg.Delta {
	var deltas []psg.Delta
	admission := c.state.Admission()
	for _, r := range resizes {
		status := c.state.Ask(psg.RequestID(r.Alloc))
		if status == nil || status.Placement == nil || status.Placement.Waits() {
			r.refused = fmt.Errorf("allocation %q holds nothing", r.Alloc)
			continue
		}
		resized := *status.Placement
		resized.Request = r.Request
		if r.refused = admission.Admit(psg.Placed{Placement: resized}); r.refused == nil {
			deltas = append(deltas, psg.Placed{Placement: resized})
		}
	}
	return deltas
}
