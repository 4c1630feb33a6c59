package telemetry

import (
	"math"
	"slices"
)

const (
	// horizonSlots is how many slots a forecast is of.
	horizonSlots = int(Horizon / SlotSpan)
	// confidence is the share of forecasts whose upper bound is to hold.
	confidence = 0.95
	// keptErrors is how many past errors the upper bound is read from: an hour's.
	keptErrors = 360
	// leastErrors is how many there must be for one of them to be such a bound.
	leastErrors = 20
)

// rates are those of the smoothers: what of each the newest slot is. The last
// one is the naive forecast, that all stays as it is.
var rates = [...]float64{0.03, 0.1, 0.3, 1} // never written to

// forecaster says what the mean of a series over the next Horizon is expected to
// be, and what none of its slots' means will exceed, with the stated confidence.
//
// The mean is that of exponential smoothers of four rates, weighted by how well
// each has done: the exponentially weighted average forecaster, with discounted
// losses (Cesa-Bianchi and Lugosi: Prediction, Learning, and Games, 2006,
// sections 2.1 and 2.11). The bound is the mean and a quantile of the last
// hour's errors, of the level that has held so often lately as it should:
// adaptive conformal inference (Gibbs and Candès, NeurIPS 2021), which needs no
// assumption about the series and holds in the long run.
type forecaster struct {
	levels [len(rates)]float64 // the smoothers
	losses [len(rates)]float64 // discounted, in units of scale
	scale  float64             // of the naive forecast's error
	miss   float64             // the level: what share of past errors the bound is to leave out

	seen   int                   // slots
	values [horizonSlots]float32 // of the last slots, by seen
	issued [horizonSlots]issued  // the forecasts that were made then
	errors [keptErrors]float32   // the peaks' excess over the mean forecast
	failed int                   // errors so far
}

// issued is a forecast whose horizon is not over.
type issued struct {
	levels      [len(rates)]float32
	mean, upper float32
	bounded     bool
}

const (
	lossMemory  = 0.99  // of the losses, from slot to slot
	lossWeight  = 0.3   // of one loss
	scaleMemory = 0.995 // of the scale
	missStep    = 0.005 // by how much one hit or miss moves the level
)

// step takes in the mean of the next slot. It sorts in scratch.
func (f *forecaster) step(value float64, scratch *[keptErrors]float32) {
	if f.seen == 0 {
		f.miss = 1 - confidence
		for i := range f.levels {
			f.levels[i] = value
		}
	}
	for i, rate := range rates {
		f.levels[i] += rate * (value - f.levels[i])
	}
	at := f.seen % horizonSlots
	due := f.issued[at]
	f.values[at] = float32(value)
	f.seen++
	if f.seen > horizonSlots {
		f.learn(due)
	}
	now := issued{mean: float32(f.mean())}
	for i, level := range f.levels {
		now.levels[i] = float32(level)
	}
	if f.failed >= leastErrors {
		now.bounded, now.upper = true, now.mean+f.quantile(scratch)
	}
	f.issued[at] = now
}

// forecast returns the newest one, once there is one.
func (f *forecaster) forecast() (mean, upper float64, ok bool) {
	if f.seen == 0 {
		return 0, 0, false
	}
	last := f.issued[(f.seen-1)%horizonSlots]
	return float64(last.mean), float64(max(last.upper, last.mean)), last.bounded
}

// learn judges the forecast whose horizon is now over.
func (f *forecaster) learn(due issued) {
	sum, peak := 0.0, float32(math.Inf(-1))
	for _, v := range f.values {
		sum += float64(v)
		peak = max(peak, v)
	}
	mean := sum / float64(horizonSlots)
	naive := math.Abs(float64(due.levels[len(rates)-1]) - mean)
	f.scale = scaleMemory*f.scale + (1-scaleMemory)*naive
	for i, level := range due.levels {
		loss := 0.0
		if f.scale > 0 {
			loss = math.Abs(float64(level)-mean) / f.scale
		}
		f.losses[i] = lossMemory*f.losses[i] + lossWeight*loss
	}
	f.errors[f.failed%keptErrors] = peak - due.mean
	f.failed++
	if !due.bounded {
		return
	}
	if f.miss += missStep * (1 - confidence); peak > due.upper {
		f.miss -= missStep
	}
	f.miss = min(max(f.miss, -0.2), 0.5)
}

// mean joins the smoothers.
func (f *forecaster) mean() float64 {
	best := slices.Min(f.losses[:])
	sum, weights := 0.0, 0.0
	for i, loss := range f.losses {
		weight := math.Exp(best - loss)
		sum += weight * f.levels[i]
		weights += weight
	}
	return sum / weights
}

// quantile is the error that past ones exceed as seldom as the level says. While
// it says never, it is somewhat beyond all of them.
func (f *forecaster) quantile(scratch *[keptErrors]float32) float32 {
	n := min(f.failed, keptErrors)
	errors := scratch[:n]
	copy(errors, f.errors[:n])
	slices.Sort(errors)
	rank := int(math.Ceil((1 - f.miss) * float64(n+1)))
	if rank <= n {
		return errors[max(rank, 1)-1]
	}
	if f.miss < 0 {
		return errors[n-1] + (errors[n-1]-errors[0])/10
	}
	return errors[n-1]
}
