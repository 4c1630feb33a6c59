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
// and ejections: once through all temperatures in haste, to learn at which the
// cost falls, then slowly through those, and at last down to single units.
func (s *searcher) anneal() {
	if s.items == 0 || s.nodes < 2 {
		return
	}
	if s.o.Near {
		s.annealNear()
		return
	}
	hot := hotter * s.pilot()
	s.restore(s.home, s.p.Cost(s.p.Initial).Total()) // not from where the pilot froze
	cold := max(coldest, hot/span)
	s.phase(pilot, steady, hot, cold)
	s.phase(steady, cool, cold, coldest)
}

// annealNear begins again and again at the initial assignment, where moves of the
// mean cost are rare, each time at half the temperature, and ends colder than
// anneal does: where the moves are all that is left to gain, there are very many
// assignments that cost a few of them more.
func (s *searcher) annealNear() {
	hot := s.meanMove() / rare
	for i := range rounds {
		s.restore(s.home, s.p.Cost(s.p.Initial).Total())
		begin, end := cool*float64(i)/rounds, cool*float64(i+1)/rounds
		s.phase(begin, end, max(frozen, hot), frozen)
		hot /= 2
	}
}

// phase anneals from one temperature to another, between two shares of the
// budget.
func (s *searcher) phase(begin, end, from, to float64) {
	for used := s.used(); used < end; used = s.used() {
		s.roundAt(falling(from, to, max(0, (used-begin)/(end-begin))))
	}
}

// pilot finds the temperature to begin at.
func (s *searcher) pilot() float64 {
	initial, from := float64(s.cost), max(coldest, hottest*s.meanWorse())
	var temperatures, costs []float64
	for level := range levels {
		temperature := falling(from, coldest, float64(level)/(levels-1))
		var sum, n float64
		for used := s.used(); used < pilot*float64(level+1)/levels; used = s.used() {
			s.roundAt(temperature)
			sum, n = sum+float64(s.cost), n+1
		}
		if n > 0 {
			temperatures, costs = append(temperatures, temperature), append(costs, sum/n)
		}
	}
	return halfway(temperatures, costs, initial)
}

// roundAt makes some steps at a temperature. It looks at the cost after each:
// small problems pass through their optimum while they are hot.
func (s *searcher) roundAt(temperature float64) {
	for range round {
		s.step(temperature)
		s.keep()
	}
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

// meanMove is what an item's being on a node costs in moves, on average.
func (s *searcher) meanMove() float64 {
	var items, nodes float64
	for _, c := range s.moveCost {
		items += float64(c)
	}
	for _, c := range s.nodeMove {
		nodes += float64(c)
	}
	return items/float64(s.items) + nodes/float64(len(s.nodeMove))
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
