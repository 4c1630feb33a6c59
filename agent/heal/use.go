package heal

import "math"

// Add adds what one more task of the allocation uses. What is unknown of one task
// is unknown of all.
func (a *Alloc) Add(use Amounts, throttled float64, pressures ...float64) {
	for r := range use {
		a.Use[r] += use[r]
	}
	a.Throttled = worst(a.Throttled, throttled)
	for _, pressure := range pressures {
		a.Pressure = worst(a.Pressure, pressure)
	}
}

// worst is the larger of what is known.
func worst(a, b float64) float64 {
	switch {
	case math.IsNaN(a):
		return b
	case math.IsNaN(b):
		return a
	}
	return max(a, b)
}
