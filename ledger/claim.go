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
//
// Members of one gang may wait for the same victims, on whichever of the gang's
// nodes those are: so they wait until there is room for all.

// Waiting returns the asks whose placement waits for others to make way, by ID.
func (s *State) Waiting() []psg.RequestID { return slices.Sorted(maps.Keys(s.waiting)) }

// ClaimedBy returns the ask that a placement is to make way for, if there is one:
// of a gang's the first by ID.
func (s *State) ClaimedBy(victim psg.RequestID) (psg.RequestID, bool) {
	by := s.claims[victim]
	if len(by) == 0 {
		return "", false
	}
	return by[0], true
}

// InWay returns those of a placement's victims that still hold room where it was
// claimed: on its node, or on that of another of its gang that waits for them.
func (s *State) InWay(p *psg.Placement) []psg.RequestID {
	return s.inWay(p, s.placement)
}

func (s *State) inWay(p *psg.Placement, placement func(psg.RequestID) *psg.Placement) []psg.RequestID {
	var left []psg.RequestID
	for _, id := range p.Victims {
		v := placement(id)
		claimed := v != nil && (v.Node == p.Node || slices.ContainsFunc(s.claims[id], func(by psg.RequestID) bool {
			claim := s.placement(by)
			return claim != nil && claim.Node == v.Node
		}))
		if claimed {
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
			s.claims[victim] = slices.DeleteFunc(s.claims[victim], func(by psg.RequestID) bool { return by == id })
			if len(s.claims[victim]) == 0 {
				delete(s.claims, victim)
			}
		}
	}
	if p != nil && p.Waits() {
		s.waiting[id] = struct{}{}
		for _, victim := range p.Victims {
			at, _ := slices.BinarySearch(s.claims[victim], id)
			s.claims[victim] = slices.Insert(s.claims[victim], at, id)
		}
	}
}

// claim admits a placement that waits: each victim stands on the node, or on any
// for a gang, makes way for nobody else but its gang, and without them all there
// is room.
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
		case held == nil || held.Node != p.Node && a.gang(p.Ask.ID) == "":
			return fmt.Errorf("victim %q is not there", victim)
		case held.Waits():
			return fmt.Errorf("victim %q waits for others itself", victim)
		case by != "" && !a.sameGang(by, p.Ask.ID) || slices.Contains(p.Victims[:i], victim):
			return fmt.Errorf("victim %q makes way for %q already", victim, by)
		}
	}
	before := maps.Clone(a.claims)
	for _, victim := range p.Victims {
		a.claims[victim] = p.Ask.ID
	}
	if err := a.without(p.Node).fits(a.state.nodes[p.Node], p); err != nil {
		a.claims = before
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
	by, _ := a.state.ClaimedBy(victim)
	return by
}

// sameGang reports whether two asks are of one gang.
func (a *Admission) sameGang(one, two psg.RequestID) bool {
	gang := a.gang(one)
	return gang != "" && gang == a.gang(two)
}

func (a *Admission) gang(id psg.RequestID) psg.GangID {
	status := a.state.asks[id]
	if status == nil {
		status = a.asked[id]
	}
	if status == nil {
		return ""
	}
	if w := a.state.workloads[status.Ask.Workload]; w != nil {
		return w.Gang
	}
	return ""
}

// without is what is held on a node once all that make way are gone.
func (a *Admission) without(node psg.NodeID) *holdings {
	left := a.holdings(node).clone()
	leaves := func(victim psg.RequestID) {
		if p := a.placement(victim); p != nil && p.Node == node {
			left.remove(p)
		}
	}
	for victim := range a.state.claims {
		leaves(victim)
	}
	for victim := range a.claims {
		if _, counted := a.state.claims[victim]; !counted {
			leaves(victim)
		}
	}
	return left
}
