package search

import (
	"math"
	"math/rand/v2"
)

// source draws what the search needs, fast.
type source struct {
	pcg rand.PCG
	// patience holds -ln(u) for evenly spaced u, so that a temperature times a
	// random entry is the most that a step may cost more.
	patience [1 << 12]float64
}

func newSource(seed uint64) *source {
	r := &source{}
	r.pcg.Seed(seed, 0x9e3779b97f4a7c15)
	for i := range r.patience {
		r.patience[i] = -math.Log((float64(i) + 0.5) / float64(len(r.patience)))
	}
	return r
}

// below draws from 0..n-1; n is small enough for the bias not to matter.
func (r *source) below(n int) int {
	return int((r.pcg.Uint64() >> 32) * uint64(n) >> 32)
}

// bearable is the most that a step may cost more at a temperature.
func (r *source) bearable(temperature float64) int64 {
	return int64(min(temperature*r.patience[r.pcg.Uint64()>>52], math.MaxInt64/4))
}
