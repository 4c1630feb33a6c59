package placement

import (
	"cmp"
	"slices"

	"github.com/psgrid/psg"
)

// reservations are the unexpired reservations of a workload that an allocation
// may take the room of, oldest first. A reservation takes from no other, and none
// can be used up by the plan that makes it.
func (s *solver) reservations(ask *psg.Ask, w *workload) []*held {
	if ask.Alloc == "" || w.ahead == 0 {
		return nil
	}
	var list []*held
	for _, h := range w.held {
		p := &h.placement
		if p.Waits() || h.planned {
			continue // its room is another's still, or not yet its own
		}
		waiting := p.State == psg.Reserved || p.State == psg.Steered
		if waiting && p.Ask.Alloc == "" && (p.Expires.IsZero() || p.Expires.After(s.p.Now)) {
			list = append(list, h)
		}
	}
	slices.SortFunc(list, func(a, b *held) int {
		return cmp.Or(a.placement.Ask.At.Compare(b.placement.Ask.At), cmp.Compare(a.placement.Ask.ID, b.placement.Ask.ID))
	})
	return list
}

// redeem puts an ask where a reservation holds room for it, and reports whether
// it fits there.
func (s *solver) redeem(at int, c *class, reserved *held) bool {
	if reserved.node == nil {
		return false
	}
	slot, mark := reserved.node.slot, len(s.journal)
	s.strike(reserved)
	found, ok := s.e.fitsAt(c, slot)
	if !ok {
		s.undo(mark)
		return false
	}
	s.grant(at, c, found, reserved)
	return true
}

// redeemable reports whether an ask would fit where a reservation holds room for
// it: its node may have been lost since, or be denied.
func (s *solver) redeemable(c *class, reserved *held) bool {
	if reserved.node == nil {
		return false
	}
	slot, mark := reserved.node.slot, len(s.journal)
	s.strike(reserved)
	_, ok := s.e.fitsAt(c, slot)
	s.undo(mark)
	return ok
}

// placePinned answers an ask that the orchestrator has put on a node already:
// granted there if it fits there, from a reservation on that node if there is
// one; else, where another node would do, elsewhere.
func (s *solver) placePinned(at int, c *class, reserved []*held) bool {
	ask := &s.p.Asks[at]
	n, known := s.e.nodes[ask.Node]
	if known {
		for _, h := range reserved {
			if h.node == n && s.redeem(at, c, h) {
				return true
			}
		}
		if found, ok := s.e.fitsAt(c, n.slot); ok {
			var spent *held
			if len(reserved) > 0 {
				spent = reserved[0]
				s.strike(spent)
			}
			s.grant(at, c, found, spent)
			return true
		}
	}
	s.refusePinned(at, c, n, reserved)
	return false
}

// refusePinned says why not here, and where instead.
func (s *solver) refusePinned(at int, c *class, n *node, reserved []*held) {
	ask, w := &s.p.Asks[at], s.works[at]
	r := s.explainNode(ask, w, c, n)
	s.answers[at].refusal = &r
	if w.spec.Type.EveryNode() {
		return
	}
	if i := slices.IndexFunc(reserved, func(h *held) bool { return s.redeemable(c, h) }); i >= 0 {
		r.State, r.Node = psg.Elsewhere, reserved[i].placement.Node
	} else if found, ok := s.e.best(c); ok {
		r.State, r.Node = psg.Elsewhere, s.e.slots[found.slot].spec.ID
	} else {
		s.answers[at].refusal, s.answers[at].deferred = nil, c
	}
}
