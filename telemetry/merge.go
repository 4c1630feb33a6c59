package telemetry

import (
	"math"

	"github.com/DataDog/sketches-go/ddsketch/mapping"

	"github.com/psgrid/psg"
)

// merge joins distributions of one series, in units, into one window: a
// DDSketch whose bins are all there from the start, as they are few and many
// windows are made one after another.
type merge struct {
	sizes        mapping.IndexMapping
	above, below bins // values above zero, and those below by their magnitude
	zeros        float64
	weight, sum  float64
	max          float64
	steady       bool // one value only so far, which is max
}

// bins are weights by the index of the sketch. Outside of low..high they are 0.
type bins struct {
	weight    [maxBins]float64
	low, high int
}

func (b *bins) clear() {
	if b.low <= b.high {
		clear(b.weight[b.low : b.high+1])
	}
	b.low, b.high = maxBins, -1
}

func (b *bins) add(index int, weight float64) {
	b.weight[index] += weight
	b.low, b.high = min(b.low, index), max(b.high, index)
}

func newMerge() *merge {
	m := &merge{sizes: newSizes()}
	m.above.clear()
	m.below.clear()
	return m
}

// newSizes is which values of how many units each bin is for.
func newSizes() mapping.IndexMapping {
	sizes, err := mapping.NewLogarithmicMapping(accuracy)
	if err != nil {
		panic(err) // the accuracy is a constant within 0..1
	}
	return sizes
}

// indexOf is the bin of a value's magnitude; 0 for none.
func indexOf(sizes mapping.IndexMapping, units int64) uint32 {
	if units == 0 {
		return 0
	}
	return uint32(sizes.Index(math.Abs(float64(units))))
}

func (m *merge) reset() {
	m.weight, m.sum, m.max, m.steady = 0, 0, math.Inf(-1), true
}

// add takes in a slot's distribution, all its values together with a weight.
func (m *merge) add(d *distribution, weight float64) {
	if d.steady() {
		m.addValue(d.max, indexOf(m.sizes, d.max), weight)
		return
	}
	m.spread()
	each := weight / float64(d.count)
	m.weight += weight
	m.sum += float64(d.sum) * each
	m.max = max(m.max, float64(d.max))
	m.zeros += float64(d.zeros) * each
	for _, b := range d.above {
		m.above.add(int(b.index), float64(b.count)*each)
	}
	for _, b := range d.below {
		m.below.add(int(b.index), float64(b.count)*each)
	}
}

// addValue takes in one value, with the bin of it. As long as there is only one
// there is no need of bins.
func (m *merge) addValue(units int64, index uint32, weight float64) {
	value := float64(units)
	if m.steady && m.weight > 0 && value != m.max {
		m.spread()
	}
	if !m.steady {
		m.count(value, index, weight)
	}
	m.weight += weight
	m.sum += value * weight
	m.max = max(m.max, value)
}

// spread begins to count in bins.
func (m *merge) spread() {
	if !m.steady {
		return
	}
	m.steady, m.zeros = false, 0
	m.above.clear()
	m.below.clear()
	if m.weight > 0 {
		m.count(m.max, indexOf(m.sizes, int64(m.max)), m.weight)
	}
}

func (m *merge) count(value float64, index uint32, weight float64) {
	switch {
	case value > 0:
		m.above.add(int(index), weight)
	case value < 0:
		m.below.add(int(index), weight)
	default:
		m.zeros += weight
	}
}

// summary is of the window so far, which must not be empty.
func (m *merge) summary(scale uint32) psg.Summary {
	per := float64(scale)
	most := m.max / per
	if m.steady {
		return psg.Summary{Mean: most, Max: most, P50: most, P95: most, P99: most}
	}
	out := psg.Summary{Mean: math.Round(m.sum/m.weight*10) / 10 / per, Max: most, P50: most, P95: most, P99: most}
	m.quantiles([...]quantile{{0.50 * m.weight, &out.P50}, {0.95 * m.weight, &out.P95}, {0.99 * m.weight, &out.P99}}, per)
	return out
}

// quantile is the value that a weight of rank lies below or at.
type quantile struct {
	rank  float64
	value *float64
}

// quantiles finds those of ascending rank in one pass. They are whole units, as
// every value is.
func (m *merge) quantiles(wanted [3]quantile, per float64) {
	next, passed := 0, 0.0
	pass := func(weight float64, value func() float64) {
		for passed += weight; weight > 0 && next < len(wanted) && passed >= wanted[next].rank*(1-1e-9); next++ {
			*wanted[next].value = min(math.Round(value()), m.max) / per
		}
	}
	for i := m.below.high; i >= m.below.low; i-- {
		pass(m.below.weight[i], func() float64 { return -m.sizes.Value(i) })
	}
	pass(m.zeros, func() float64 { return 0 })
	for i := m.above.low; i <= m.above.high; i++ {
		pass(m.above.weight[i], func() float64 { return m.sizes.Value(i) })
	}
}
