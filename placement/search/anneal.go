package search

import (
	"math"
)

// The schedule: in each round the temperature falls geometrically, from a share
// of the mean cost of a worsening step to one unit of cost.
const (
	round     = 2048 // steps between two looks at the budget
	coldest   = 0.3  // of cost
	hottest   = 0.02 // of the mean worsening step
	kinds     = 256  // of steps: so many ejections and shifts, the rest swaps
	ejections = 2
	shifts    = 127
	homeward  = 16
	cool      = 0.97 // share of the budget that is annealed; the rest descends
)

// anneal is simulated annealing (Kirkpatrick et al. 1983) over shifts and swaps.
func (s *searcher) anneal() {
	if s.items == 0 || s.nodes < 2 {
		return
	}
	hot := max(coldest, hottest*s.meanWorse())
	for {
		share := s.used() / cool
		if share >= 1 {
			return
		}
		temperature := hot * math.Pow(coldest/hot, share)
		for range round {
			s.step(temperature)
		}
		s.keep()
	}
}

// step proposes one change and makes it if it is allowed and bearable.
func (s *searcher) step(temperature float64) {
	s.steps++
	item := s.random.below(s.items)
	from := int(s.at[item])
	kind := s.random.below(kinds)
	if kind < ejections {
		if to := s.random.below(s.nodes); to != from {
			s.eject(item, to, s.random.bearable(temperature))
		}
		return
	}
	if kind < ejections+shifts {
		to := s.random.below(s.nodes)
		if kind < ejections+homeward {
			to = int(s.home[item])
		}
		if to == from || !s.allowsShift(item, to) {
			return
		}
		if d := s.shiftDelta(item, to); d <= 0 || d <= s.random.bearable(temperature) {
			s.shift(item, to, d)
		}
		return
	}
	other := s.random.below(s.items)
	if int(s.at[other]) == from || !s.allowsSwap(item, other) {
		return
	}
	if d := s.swapDelta(item, other); d <= 0 || d <= s.random.bearable(temperature) {
		s.swap(item, other, d)
	}
}

// meanWorse samples what an allowed step costs more, of those that do.
func (s *searcher) meanWorse() float64 {
	var sum, n float64
	for range 20 * round {
		item, to := s.random.below(s.items), s.random.below(s.nodes)
		if int(s.at[item]) == to || !s.allowsShift(item, to) {
			continue
		}
		if d := s.shiftDelta(item, to); d > 0 {
			sum, n = sum+float64(d), n+1
		}
	}
	return sum / max(n, 1)
}
