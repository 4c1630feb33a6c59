package ledger

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/psgrid/psg"
)

// claim is a placement that waits for others to make way: see
// psg.Placement.Victims. Its room is held beside theirs, so that nobody else
// gets it piece by piece as they end; that both together are more than the node
// has is checked once, by what is left when they are gone.

// Waiting returns the asks whose placement waits for others to make way, by ID.
func (s *State) Waiting() []psg.RequestID { return slices.Sorted(maps.Keys(s.waiting)) }

// ClaimedBy returns the ask that a placement is to make way for, if there is one.
func (s *State) ClaimedBy(victim psg.RequestID) (psg.RequestID, bool) {
	by, claimed := s.claims[victim]
	return by, claimed
}

// InWay returns those of a placement's victims that still hold room on its node.
func (s *State) InWay(p *psg.Placement) []psg.RequestID {
	return inWay(p, s.placement)
}

func inWay(p *psg.Placement, placement func(psg.RequestID) *psg.Placement) []psg.RequestID {
	var left []psg.RequestID
	for _, id := range p.Victims {
		if v := placement(id); v != nil && v.Node == p.Node {
			left = append(left, id)
		}
	}
	return left
}

// reclaim keeps claims and waiting in step with what an ask holds: old until
// now, p from here on.
func (s *State) reclaim(id psg.RequestID, old, p *psg.Placement) {
	if old != nil && old.Waits() {
		delete(s.waiting, id)
		for _, victim := range old.Victims {
			delete(s.claims, victim)
		}
	}
	if p != nil && p.Waits() {
		s.waiting[id] = struct{}{}
		for _, victim := range p.Victims {
			s.claims[victim] = id
		}
	}
}

// claim admits a placement that waits: each victim stands on the node, makes way
// for nobody else, and without them all there is room.
func (a *Admission) claim(p, old *psg.Placement) error {
	switch {
	case old != nil:
		return errors.New("it holds room already")
	case p.State != psg.Reserved || p.Expires.IsZero():
		return fmt.Errorf("it waits for others as %s until %s", p.State, p.Expires)
	}
	for i, victim := range p.Victims {
		held, by := a.placement(victim), a.claimedBy(victim)
		switch {
		case held == nil || held.Node != p.Node:
			return fmt.Errorf("victim %q is not there", victim)
		case held.Waits():
			return fmt.Errorf("victim %q waits for others itself", victim)
		case by != "" || slices.Contains(p.Victims[:i], victim):
			return fmt.Errorf("victim %q makes way for %q already", victim, by)
		}
	}
	for _, victim := range p.Victims {
		a.claims[victim] = p.Ask.ID
	}
	if err := a.without(p.Node).fits(a.state.nodes[p.Node], p); err != nil {
		for _, victim := range p.Victims {
			delete(a.claims, victim)
		}
		return err
	}
	a.holdings(p.Node).add(p)
	a.taken[p.Ask.ID] = p
	return nil
}

func (a *Admission) claimedBy(victim psg.RequestID) psg.RequestID {
	if by, claimed := a.claims[victim]; claimed {
		return by
	}
	return a.state.claims[victim]
}

// without is what is held on a node once all that make way are gone.
func (a *Admission) without(node psg.NodeID) *holdings {
	left := a.holdings(node).clone()
	claimed := maps.Clone(a.state.claims)
	maps.Copy(claimed, a.claims)
	for victim := range claimed {
		if p := a.placement(victim); p != nil && p.Node == node {
			left.remove(p)
		}
	}
	return left
}
