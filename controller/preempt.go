package controller

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/ledger"
	"github.com/psgrid/psg/placement"
)

const (
	// preemptWithin is how long victims may take to end: longer than most
	// kill_timeouts. Then the preemption is given up.
	preemptWithin = 2 * time.Minute
	// searchFor bounds the search for victims, for which a cycle waits.
	searchFor = 250 * time.Millisecond
)

// preempt is a waiting request to make room for an ask.
type preempt struct {
	ask     psg.RequestID
	node    psg.NodeID
	most    int
	refused *psg.Refusal // set by the cycle that decides it, anew each time
	wrong   error        // likewise
	answer  chan error   // buffered: told once, after the commit
}

// Preempt makes room for an ask that waits, at the expense of placements of
// lower priority that are preemptible and not protected: see
// placement.Engine.Preempt. node says where, most how many may end; empty and 0
// leave both open.
//
// Who ends is decided and committed together with the room that the ask gets,
// which is held beside theirs until the last of them is gone; only then it is
// granted. If they do not end in time, or the node is lost, the ask waits again
// as before. Where the room is on another node than the one where the ask's
// allocation waits, it is reserved for one that is started there.
//
// It returns the stops that are under way, none for an ask that has a place or
// could have one as it is, or why nobody can make way. Calling it again changes
// nothing until that has come to pass.
//
// Errors: psg.ErrUnknown (no such ask), psg.ErrInvalid (it is over),
// psg.ErrBusy, psg.ErrNotLeader, psg.ErrUnavailable (nobody carries stops out).
func (c *Controller) Preempt(ctx context.Context, ask psg.RequestID, node psg.NodeID, most int) ([]psg.Order, *psg.Refusal, error) {
	if err := c.mustLead(); err != nil {
		return nil, nil, err
	}
	if most < 0 {
		return nil, nil, fmt.Errorf("max_victims %d is below 0: %w", most, psg.ErrInvalid)
	}
	if !c.evictions.open() {
		return nil, nil, fmt.Errorf("make room for %s: nothing stops allocations here: %w", ask, psg.ErrUnavailable)
	}
	waiting := &preempt{ask: ask, node: node, most: most, answer: make(chan error, 1)}
	if err := c.inbox.preempt(waiting); err != nil {
		return nil, nil, err
	}
	select {
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	case err := <-waiting.answer:
		if err != nil || waiting.refused != nil {
			return nil, waiting.refused, err
		}
	}
	var orders []psg.Order
	c.view(func(s *ledger.State) { orders = stops(s, claimOf(s, ask)) })
	return orders, nil, nil
}

func (p *preempt) tell(err error) {
	if err == nil {
		err = p.wrong
	}
	p.answer <- err
}

// claimPrefix begins the IDs of the asks that hold room on another node than the
// one where the allocation of ask waits: those of steering, which uses it.
func claimPrefix(ask psg.RequestID) string { return fmt.Sprint(steerPrefix, ask, claimSuffix) }

const claimSuffix = "/preempt-"

// claimant is the ask on whose behalf an ask of steering holds room beside
// victims, if it does. Whoever asks chooses its ID, which may look like anything.
func claimant(id psg.RequestID) (owner psg.RequestID, claims bool) {
	rest, steers := strings.CutPrefix(string(id), steerPrefix)
	end := strings.LastIndex(rest, claimSuffix)
	if !steers || end < 0 {
		return "", false
	}
	return psg.RequestID(rest[:end]), true
}

// claimOf returns the placement that waits for others on behalf of an ask.
func claimOf(s *ledger.State, ask psg.RequestID) *psg.Placement {
	for _, id := range s.Waiting() {
		if owner, claims := claimant(id); id == ask || claims && owner == ask {
			return s.Ask(id).Placement
		}
	}
	return nil
}

// stops are the orders for those who are yet to make way for a placement.
func stops(s *ledger.State, p *psg.Placement) []psg.Order {
	var orders []psg.Order
	if p == nil {
		return nil
	}
	for _, id := range s.InWay(p) {
		victim := s.Ask(id)
		orders = append(orders, psg.Order{
			Kind: psg.Stop, Epoch: s.Epoch(), Sequence: s.Ask(p.Ask.ID).Sequence,
			Ask: id, Workload: victim.Ask.Workload, Alloc: victim.Ask.Alloc, Node: victim.Placement.Node,
		})
	}
	return orders
}

// decidePreempt chooses who makes way, or notes why nobody can.
func (c *Controller) decidePreempt(ctx context.Context, want *preempt, now time.Time) ([]psg.Delta, error) {
	want.refused, want.wrong = nil, nil
	status := c.state.Ask(want.ask)
	switch {
	case status == nil:
		want.wrong = fmt.Errorf("ask %q: %w", want.ask, psg.ErrUnknown)
		return nil, nil
	case status.Over():
		want.wrong = fmt.Errorf("ask %q is %s: %w", want.ask, status.State, psg.ErrInvalid)
		return nil, nil
	case status.Placement != nil || claimOf(c.state, want.ask) != nil:
		return nil, nil // it has a place, or is to have one
	}
	found, refused, err := c.searchVictims(ctx, status, want, now)
	switch {
	case err != nil:
		return nil, err
	case refused != nil:
		want.refused = refused
		return nil, nil
	case len(found.Victims) == 0:
		c.dirty = true
		return nil, nil // it has room as it is: the next cycle places it
	}
	return c.claim(status, found, want, now), nil
}

// searchVictims asks the engine, under the rulings on all who might make way,
// and policy once more about the ask in their place.
func (c *Controller) searchVictims(ctx context.Context, status *psg.AskStatus, want *preempt, now time.Time) (placement.Preemption, *psg.Refusal, error) {
	var none placement.Preemption
	view, policy := c.freeze(now), c.policy()
	rulings, err := rule(ctx, policy, affected(view, status.Ask), view)
	if err != nil {
		return none, nil, err
	}
	c.bind(c.engine, policy, rulings, []psg.Ask{status.Ask}, view, now)
	found, refused := c.engine.Preempt(placement.Problem{
		Now: now, Seed: c.state.Sequence(), Rulings: rulings, Rows: rows(view),
		Stop: within(searchFor),
	}, placement.Sacrifice{Ask: status.Ask, Node: want.node, Most: want.most})
	if refused != nil || len(found.Victims) == 0 {
		return found, refused, nil
	}
	sequel := policy.Sequel(view)
	for _, victim := range found.Victims {
		sequel.Free(victim.Ask.ID)
	}
	unit := []psg.Placement{found.Placement}
	reasons, err := admitAll(ctx, sequel, unit, view)
	if err != nil {
		return none, nil, err
	}
	if len(reasons) > 0 {
		return none, &deniedAfter(unit, reasons)[0], nil
	}
	audited(unit, rulings, view)
	found.Placement = unit[0]
	return found, nil, nil
}

// affected are an ask and those of the placements that it may drive out by their
// priority.
func affected(view *psg.Snapshot, ask psg.Ask) []psg.Ask {
	asks := []psg.Ask{ask}
	preemptor := view.Workload(ask.Workload)
	if preemptor == nil {
		return asks
	}
	for p := range view.Placements.All() {
		w := view.Workload(p.Ask.Workload)
		if w != nil && w.Preemptible && w.Priority < preemptor.Priority {
			asks = append(asks, p.Ask)
		}
	}
	return asks
}

// claim turns what the engine found into deltas: the room under the ask's own ID,
// or, on another node than its allocation's, under one of steering.
func (c *Controller) claim(status *psg.AskStatus, found placement.Preemption, want *preempt, now time.Time) []psg.Delta {
	p := found.Placement
	var deltas []psg.Delta
	if status.Ask.Node != "" && status.Ask.Node != p.Node {
		p.Ask = psg.Ask{
			ID:       psg.RequestID(fmt.Sprint(claimPrefix(status.Ask.ID), c.state.Sequence())),
			Workload: status.Ask.Workload, Node: p.Node, At: now, Hold: steerHold,
		}
		deltas = append(deltas, psg.Asked{Ask: p.Ask})
	}
	p.State, p.Since, p.Expires = psg.Reserved, now, now.Add(preemptWithin)
	for _, victim := range found.Victims {
		p.Victims = append(p.Victims, victim.Ask.ID)
	}
	deltas = append(deltas, psg.Placed{Placement: p})
	for _, d := range deltas {
		if err := c.log.Check(d); err != nil {
			want.wrong = err
			return nil
		}
	}
	admission := c.state.Admission()
	admission.Ask(p.Ask)
	if err := admission.Admit(psg.Placed{Placement: p}); err != nil {
		want.wrong = fmt.Errorf("engine and ledger disagree: %w", err)
		return nil
	}
	return deltas
}
