package search

import "math"

const (
	// maxEjected bounds the items that one item may drive away, and maxAsked those of
	// whom one is chosen each time.
	maxEjected = 16
	maxAsked   = 1024
)

// undo is one shift to be taken back.
type undo struct {
	item, from int
	delta      int64
}

// eject forces an item onto a node and drives others from there, to where the
// item came from or to a few other nodes, as long as the node is overfull or it
// pays. What is then not bearable is taken back. It is how a large item gets to
// a node that many small ones fill: after the "big process rearrangement" of
// Gavranović and Buljubašić (2012).
func (s *searcher) eject(item, to int, bearable int64) {
	from := int(s.at[item])
	if !s.allowsGroup(item, to) {
		return
	}
	for r, q := range s.holds(item, to) {
		if q > s.p.Nodes[to].Capacity[r] {
			return
		}
	}
	s.made = s.made[:0]
	before := s.cost
	s.try(item, to, s.shiftDelta(item, to))
	for range maxEjected {
		full := s.overfull(to)
		other, goal, delta := s.cheapest(item, from, to)
		if other < 0 || !full && delta >= 0 {
			break
		}
		s.try(other, goal, delta)
	}
	if s.overfull(to) || s.cost-before > bearable {
		s.takeBack()
	}
}

// cheapest is the shift of an item from a node that costs least; not of the
// item named. other is negative if none is allowed. Of very many some are asked.
func (s *searcher) cheapest(item, source, node int) (other, goal int, delta int64) {
	other, delta = -1, math.MaxInt64
	goals := [...]int{source, 0, s.random.below(s.nodes), s.random.below(s.nodes)}
	occupants := s.occupant[node]
	if more := len(occupants) - maxAsked; more > 0 {
		first := s.random.below(more + 1)
		occupants = occupants[first : first+maxAsked]
	}
	for _, candidate := range occupants {
		if int(candidate) == item {
			continue
		}
		goals[1] = int(s.home[candidate])
		for _, g := range goals {
			s.steps++
			if g == node || !s.allowsShift(int(candidate), g) {
				continue
			}
			if d := s.shiftDelta(int(candidate), g); d < delta {
				other, goal, delta = int(candidate), g, d
			}
		}
	}
	return other, goal, delta
}

// try makes a shift that can be taken back.
func (s *searcher) try(item, to int, delta int64) {
	s.made = append(s.made, undo{item, int(s.at[item]), delta})
	s.shift(item, to, delta)
}

// takeBack undoes what was tried, the last first.
func (s *searcher) takeBack() {
	for i := len(s.made) - 1; i >= 0; i-- {
		u := s.made[i]
		s.shift(u.item, u.from, -u.delta)
	}
	s.made = s.made[:0]
}
