package agent

import (
	"math"
	"time"

	"github.com/psgrid/psg/telemetry"
)

// metric is one measured quantity of the node.
type metric struct {
	name   string
	value  float64           // the last one
	set    bool              // there is one
	series *telemetry.Series // nil where nothing is recorded
}

// namer returns the metric of a name, a new one if there is none yet.
type namer func(name string) *metric

// put takes in a value. What is not a number says that nothing is known now,
// and is left out.
func (m *metric) put(at time.Time, value float64) {
	if !known(value) {
		return
	}
	m.value, m.set = value, true
	if m.series != nil {
		m.series.Put(at, value)
	}
}

// forget drops the value: the metric can no longer be measured.
func (m *metric) forget() {
	m.set = false
	if m.series != nil {
		m.series.Absent()
	}
}

// known reports whether a value is a finite number.
func known(value float64) bool { return !math.IsNaN(value) && !math.IsInf(value, 0) }

// counter is one of the kernel's counters, as it was last read.
type counter struct {
	value uint64
	at    time.Time
	known bool
}

// step takes in a reading and returns by how much the counter grew, and in how
// many seconds. Both are NaN at the first reading, and when it stepped back: it
// was made anew.
func (c *counter) step(at time.Time, value uint64) (grown, seconds float64) {
	grown, seconds = math.NaN(), math.NaN()
	if passed := at.Sub(c.at); c.known && value >= c.value && passed > 0 {
		grown, seconds = float64(value-c.value), passed.Seconds()
	}
	*c = counter{value: value, at: at, known: true}
	return grown, seconds
}

// rate takes in a reading and returns the counter's growth per second, or NaN.
func (c *counter) rate(at time.Time, value uint64) float64 {
	grown, seconds := c.step(at, value)
	return grown / seconds
}
