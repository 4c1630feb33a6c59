package search

import "math"

// Of a hundred steps, so many are ejections, shifts home and other shifts; the
// rest are swaps.
const (
	ejections = 15
	homeward  = 10
	shifts    = 30
)

// anneal is simulated annealing (Kirkpatrick et al. 1983) over shifts, swaps
// and ejections: once through all temperatures in haste, to learn where the
// cost falls, then again with most of the time spent there.
func (s *searcher) anneal() {
	if s.items == 0 || s.nodes < 2 {
		return
	}
	plan := newSchedule(hottest*s.meanWorse(), float64(s.cost))
	for _, pass := range []struct {
		until float64 // share of the budget
		learn bool
	}{{pilot, true}, {cool, false}} {
		from := s.used()
		for level := range levels {
			until := from + (pass.until-from)*plan.ends[level]
			var sum, n float64
			for share := s.used(); share < until; share = s.used() {
				s.roundAt(plan.temperature[level])
				sum, n = sum+float64(s.cost), n+1
			}
			if pass.learn && n > 0 {
				plan.cost[level] = sum / n
			}
		}
		plan.adapt()
	}
}

// roundAt makes some steps at a temperature.
func (s *searcher) roundAt(temperature float64) {
	for range round {
		s.step(temperature)
	}
	s.keep()
}

// step proposes one change and makes it if it is allowed and bearable.
func (s *searcher) step(temperature float64) {
	s.steps++
	item, kind := s.random.below(s.items), s.random.below(100)
	from := int(s.at[item])
	if kind >= ejections+homeward+shifts {
		s.proposeSwap(item, s.random.below(s.items), temperature)
		return
	}
	to := s.random.below(s.nodes)
	if kind >= ejections && kind < ejections+homeward {
		to = int(s.home[item])
	}
	switch {
	case to == from:
	case kind < ejections:
		s.eject(item, to, s.random.bearable(temperature))
	case s.allowsShift(item, to):
		if d := s.shiftDelta(item, to); d <= 0 || d <= s.random.bearable(temperature) {
			s.shift(item, to, d)
		}
	}
}

func (s *searcher) proposeSwap(one, two int, temperature float64) {
	if s.at[one] == s.at[two] || !s.allowsSwap(one, two) {
		return
	}
	if d := s.swapDelta(one, two); d <= 0 || d <= s.random.bearable(temperature) {
		s.swap(one, two, d)
	}
}

// meanWorse samples what an allowed shift costs more, of those that do.
func (s *searcher) meanWorse() float64 {
	var sum, n float64
	for range samples {
		item, to := s.random.below(s.items), s.random.below(s.nodes)
		if int(s.at[item]) == to || !s.allowsShift(item, to) {
			continue
		}
		if d := s.shiftDelta(item, to); d > 0 {
			sum, n = sum+float64(d), n+1
		}
	}
	return sum / math.Max(n, 1)
}
