package placement

import (
	"cmp"
	"slices"

	"github.com/psgrid/psg"
)

// Preemption is which placements must end for an ask to fit, and where it goes
// then.
type Preemption struct {
	Placement psg.Placement   // of the ask, once the victims are gone
	Victims   []psg.Placement // by ID
}

// Preempt finds room for an ask at the expense of placements of lower priority
// that are preemptible and not protected. The victims are the fewest that
// suffice on any node; among as many the lowest in priority, then those on the
// best node. Whatever the ask needs becomes free: a victim that frees only
// something else is not chosen. Since a victim's priority is always below the
// preemptor's, preemptions can't go in circles. ok is false where no set of
// victims makes it fit; an ask that fits as it is needs none.
func (e *Engine) Preempt(p Problem, ask psg.Ask) (Preemption, bool) {
	p.Asks = []psg.Ask{ask}
	s := e.newSolver(p)
	w, c := s.admit(0)
	if c == nil {
		return Preemption{}, false
	}
	best, ok := s.cheapestVictims(ask, w, c)
	if !ok {
		return Preemption{}, false
	}
	for _, v := range best.victims {
		s.strike(v)
	}
	s.grant(0, c, best.at, nil)
	found := Preemption{Placement: *s.answers[0].placement}
	for _, v := range best.victims {
		found.Victims = append(found.Victims, v.placement)
	}
	s.undo(0)
	return found, true
}

// sacrifice is one node's set of victims.
type sacrifice struct {
	victims []*held
	highest int // priority among them
	sum     int // of their priorities
	at      candidate
}

func (s *solver) cheapestVictims(ask psg.Ask, w *workload, c *class) (best sacrifice, ok bool) {
	for _, n := range s.e.slots {
		if n == nil || ask.Node != "" && ask.Node != n.spec.ID || s.spent() {
			continue
		}
		next := sacrifice{victims: s.smallest(c, n, s.lesser(n, w))}
		if next.victims == nil {
			continue
		}
		slices.SortFunc(next.victims, byID)
		for _, v := range next.victims {
			next.highest = max(next.highest, v.workload.spec.Priority)
			next.sum += v.workload.spec.Priority
		}
		next.at, _ = s.fitsWithout(c, n, next.victims...)
		if !ok || s.e.cheaper(&next, &best) {
			best, ok = next, true
		}
	}
	return best, ok
}

func (e *Engine) cheaper(a, b *sacrifice) bool {
	return cmp.Or(
		cmp.Compare(len(a.victims), len(b.victims)), cmp.Compare(a.highest, b.highest), cmp.Compare(a.sum, b.sum),
		cmp.Compare(b.at.parts.total(), a.at.parts.total()), cmp.Compare(e.ranks[a.at.slot], e.ranks[b.at.slot]),
	) < 0
}

// lesser lists a node's placements that a workload may preempt, the lowest in
// priority first.
func (s *solver) lesser(n *node, w *workload) []*held {
	var list []*held
	for _, h := range n.held {
		v := h.workload
		if settled(h) && v.spec.Preemptible && v.spec.Priority < w.spec.Priority && !s.protected(v) {
			list = append(list, h)
		}
	}
	slices.SortFunc(list, func(a, b *held) int {
		return cmp.Or(cmp.Compare(a.workload.spec.Priority, b.workload.spec.Priority), byID(a, b))
	})
	return list
}
