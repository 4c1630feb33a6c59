package search

import "math"

const (
	levels  = 40    // of temperature
	round   = 1024  // steps between two looks at the budget
	samples = 40960 // of steps, to find the hottest level
	coldest = 0.3   // of cost
	hottest = 2     // of the mean worsening shift
	pilot   = 0.08  // share of the budget that learns where the cost falls
	cool    = 0.97  // share that is annealed in all; the rest descends
	even    = 0.3   // share of the annealing that all levels have alike
)

// schedule is the temperatures, geometrically spaced, and when each ends.
type schedule struct {
	temperature [levels]float64
	cost        [levels]float64 // mean that was seen at each
	ends        [levels]float64 // share of a pass that is gone at its end
	initial     float64         // cost
}

// newSchedule spends the same time at each level.
func newSchedule(hot, initial float64) *schedule {
	hot = max(hot, coldest)
	s := &schedule{initial: initial}
	for i := range levels {
		s.temperature[i] = hot * math.Pow(coldest/hot, float64(i)/(levels-1))
		s.cost[i] = initial
		s.ends[i] = float64(i+1) / levels
	}
	return s
}

// adapt gives each level time by the cube root of what the cost fell there:
// more where it matters, but the last units their share too. What only undoes
// the heat does not count.
func (s *schedule) adapt() {
	var fell [levels]float64
	var total float64
	lowest := s.initial
	for i, cost := range s.cost {
		fell[i] = math.Cbrt(max(0, lowest-cost))
		lowest = min(lowest, cost)
		total += fell[i]
	}
	end := 0.0
	for i := range s.ends {
		share := 1.0 / levels
		if total > 0 {
			share = even*share + (1-even)*fell[i]/total
		}
		end += share
		s.ends[i] = end
	}
}
