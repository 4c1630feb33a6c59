package controller

import (
	"context"
	"fmt"
	"math"
	"slices"
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
// allocation waits, it is reserved for one that is started there. For an ask of a
// gang all that is for the whole gang: each of it waits for all who end.
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
	c.view(func(s *ledger.State) { orders = stops(s, claimsOf(s, ask)...) })
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

// claimsOf returns the placements that wait for others on behalf of an ask, or of
// others of its gang.
func claimsOf(s *ledger.State, ask psg.RequestID) []*psg.Placement {
	var claims []*psg.Placement
	gang := psg.GangID("")
	if status := s.Ask(ask); status != nil {
		gang = gangOf(s, status.Ask.Workload)
	}
	for _, id := range s.Waiting() {
		p := s.Ask(id).Placement
		owner, steers := claimant(id)
		if id == ask || steers && owner == ask || gang != "" && gangOf(s, p.Ask.Workload) == gang {
			claims = append(claims, p)
		}
	}
	return claims
}

// stops are the orders for those who are yet to make way for placements, each once.
func stops(s *ledger.State, claims ...*psg.Placement) []psg.Order {
	var orders []psg.Order
	stopped := map[psg.RequestID]bool{}
	for _, p := range claims {
		for _, id := range s.InWay(p) {
			if stopped[id] {
				continue
			}
			stopped[id] = true
			victim := s.Ask(id)
			orders = append(orders, psg.Order{
				Kind: psg.Stop, Epoch: s.Epoch(), Sequence: s.Ask(p.Ask.ID).Sequence,
				Ask: id, Workload: victim.Ask.Workload, Alloc: victim.Ask.Alloc, Node: victim.Placement.Node,
			})
		}
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
	case status.Placement != nil || len(claimsOf(c.state, want.ask)) > 0:
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
	return c.claim(found, want, now), nil
}

// searchVictims asks the engine, under the rulings on all who might make way,
// and policy once more about the ask in their place.
func (c *Controller) searchVictims(ctx context.Context, status *psg.AskStatus, want *preempt, now time.Time) (placement.Preemption, *psg.Refusal, error) {
	var none placement.Preemption
	view, policy := c.freeze(now), c.policy()
	asks := c.gangAsks(status.Ask)
	rulings, err := rule(ctx, policy, affected(view, asks), view)
	if err != nil {
		return none, nil, err
	}
	c.bind(c.engine, policy, rulings, asks, view, now)
	found, refused := c.engine.Preempt(placement.Problem{
		Now: now, Seed: c.state.Sequence(), Rulings: rulings, Rows: rows(view),
		Stop: within(searchFor),
	}, placement.Sacrifice{Ask: status.Ask, Gang: asks, Node: want.node, Most: want.most})
	if refused != nil || len(found.Victims) == 0 {
		return found, refused, nil
	}
	sequel := policy.Sequel(view)
	for _, victim := range found.Victims {
		sequel.Free(victim.Ask.ID)
	}
	reasons, err := admitAll(ctx, sequel, found.Placements, view)
	if err != nil {
		return none, nil, err
	}
	if len(reasons) > 0 {
		return none, &deniedAfter([]psg.Placement{{Ask: status.Ask, Node: found.Placements[0].Node}}, reasons)[0], nil
	}
	audited(found.Placements, rulings, view)
	return found, nil, nil
}

// gangAsks are an ask and all others of its gang that wait.
func (c *Controller) gangAsks(ask psg.Ask) []psg.Ask {
	gang := c.gang(ask.Workload)
	if gang == "" {
		return []psg.Ask{ask}
	}
	return slices.DeleteFunc(c.state.Pending(), func(a psg.Ask) bool { return c.gang(a.Workload) != gang })
}

// affected are asks that wait and those of the placements that they may drive out
// by their priority.
func affected(view *psg.Snapshot, asks []psg.Ask) []psg.Ask {
	highest := math.MinInt
	for _, ask := range asks {
		if w := view.Workload(ask.Workload); w != nil {
			highest = max(highest, w.Priority)
		}
	}
	asks = slices.Clip(asks)
	for p := range view.Placements.All() {
		w := view.Workload(p.Ask.Workload)
		if w != nil && w.Preemptible && w.Priority < highest {
			asks = append(asks, p.Ask)
		}
	}
	return asks
}

// claim turns what the engine found into deltas: the room under each ask's own ID,
// or, where its allocation is not to start there at once, under one of steering.
func (c *Controller) claim(found placement.Preemption, want *preempt, now time.Time) []psg.Delta {
	var asked, placed []psg.Delta
	for _, p := range found.Placements {
		gang := c.gang(p.Ask.Workload)
		if waits := p.Ask.Node; waits != "" && (waits != p.Node || gang != "") { // a gang starts together, in a cycle to come
			p.Ask = psg.Ask{
				ID:       psg.RequestID(fmt.Sprint(claimPrefix(p.Ask.ID), c.state.Sequence())),
				Workload: p.Ask.Workload, Node: p.Node, At: now, Hold: steerHold,
			}
			asked = append(asked, psg.Asked{Ask: p.Ask})
		}
		p.State, p.Since, p.Expires = psg.Reserved, now, now.Add(preemptWithin)
		for _, victim := range found.Victims {
			p.Victims = append(p.Victims, victim.Ask.ID)
		}
		placed = append(placed, psg.Placed{Placement: p})
	}
	deltas := slices.Concat(asked, placed)
	if err := c.log.Check(deltas...); err != nil {
		want.wrong = err
		return nil
	}
	admission := c.state.Admission()
	for _, d := range asked {
		admission.Ask(d.(psg.Asked).Ask)
	}
	for _, d := range placed {
		if err := admission.Admit(d); err != nil {
			want.wrong = fmt.Errorf("engine and ledger disagree: %w", err)
			return nil
		}
	}
	return deltas
}
