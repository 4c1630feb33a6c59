package search

import "math"

// The schedule's constants, as measured on the challenge's set A.
const (
	round   = 1024  // steps between two looks at the budget
	samples = 40960 // steps to find the pilot's first temperature
	levels  = 40    // of temperature in the pilot
	hottest = 12    // times the mean worsening shift
	coldest = 0.3   // of cost
	rounds  = 5     // of annealing near the initial assignment
	rare    = 3     // mean moves over the temperature of the first of them
	frozen  = 0.1   // of cost, where they end
	hotter  = 10    // begins the main part so much above what the pilot found
	span    = 1000  // hot over cold in the main part
	pilot   = 0.06  // share of the budget that finds the hot temperature
	steady  = 0.84  // until there the main part
	cool    = 0.97  // until there from cold to coldest; the rest descends
)

// falling is the temperature when so much of a phase is gone, geometrically.
func falling(from, to, gone float64) float64 {
	return max(to, from*math.Pow(to/from, gone))
}

// halfway is the temperature at which a pilot's cost has come halfway from the
// initial to its lowest: hotter only shuffles, colder is frozen soon.
func halfway(temperatures, costs []float64, initial float64) float64 {
	lowest := initial
	for _, c := range costs {
		lowest = min(lowest, c)
	}
	for i, c := range costs {
		if c <= (initial+lowest)/2 {
			return temperatures[i]
		}
	}
	return coldest
}
