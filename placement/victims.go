package placement

import (
	"cmp"

	"github.com/psgrid/psg"
)

// mostVictims is how many placements of one node may make way for one ask
// where every set is tried; beyond it sets are found greedily.
const mostVictims = 2

// fitsWithout reports whether a class fits a node once some of its placements
// are gone, and how good it is there. It leaves everything as it was.
func (s *solver) fitsWithout(c *class, n *node, victims ...*held) (candidate, bool) {
	s.e.trial = true
	defer func() { s.e.trial = false }()
	mark := len(s.journal)
	for _, v := range victims {
		s.strike(v)
	}
	found, ok := s.e.fitsAt(c, n.slot)
	s.undo(mark)
	return found, ok
}

// smallest finds a smallest set among the placements that may go which lets the
// class fit the node; of several the first in the order given. Nil means that
// not even all of them suffice.
func (s *solver) smallest(c *class, n *node, may []*held) []*held {
	if len(may) == 0 || !s.suits(c, n) {
		return nil
	}
	if _, ok := s.fitsWithout(c, n, may...); !ok {
		return nil
	}
	for i := range may {
		if _, ok := s.fitsWithout(c, n, may[i]); ok {
			return may[i : i+1]
		}
	}
	for i := range may {
		for j := i + 1; j < len(may); j++ {
			if _, ok := s.fitsWithout(c, n, may[i], may[j]); ok {
				return []*held{may[i], may[j]}
			}
		}
	}
	return pruned(may, func(victims []*held) bool {
		_, ok := s.fitsWithout(c, n, victims...)
		return ok
	})
}

// suits reports whether the node could take the class if it held nothing.
func (s *solver) suits(c *class, n *node) bool {
	return !c.judged.denied.Has(int(n.slot)) && c.shape.filter.on(s.e, n.slot).ok
}

// settled reports whether a placement stands, so that it can be moved or
// preempted: it is neither on its way in nor making way for another, nor pinned
// to its node by its type.
func (e *Engine) settled(h *held) bool {
	w := h.workload
	running := h.placement.State == psg.Running || h.placement.State == psg.Granted
	_, leaving := e.claims[h.placement.Ask.ID]
	return running && !leaving && w.known && w.fault == "" && !w.spec.Type.EveryNode()
}

// protected reports whether policy lets nobody touch a workload's instances.
func (s *solver) protected(w *workload) bool {
	ruling := s.p.Rulings[w.id]
	return ruling != nil && len(ruling.Protected) > 0
}

// byID orders placements, for lists whose order must not depend on history.
func byID(a, b *held) int { return cmp.Compare(a.placement.Ask.ID, b.placement.Ask.ID) }
