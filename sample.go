package psg

import "time"

// Sample is what an agent says of its node after one collection: what changed
// since the sample before it. Package telemetry makes and folds samples; any of
// them may be lost, repeated or reordered on the way.
//
// Values and uses are whole numbers of units; Declared says how large a unit is.
type Sample struct {
	Node      NodeID
	Session   uint64    // one run of one agent; a later run has a higher one
	Sequence  uint64    // counts the samples of a session from 1
	At        time.Time // by the session's clock, which never goes back
	Full      bool      // Declared, Values, Uses and Forecasts are all there is, not only what changed
	Declared  []Declared
	Values    []Value
	Uses      []UseValue
	Forecasts []Forecast
	Gone      []SeriesID // no longer measured
	Slots     []Slot
	Inventory *Inventory // the node's devices; nil: as before, or not known
}

// SeriesID stands for one series within a session; it is never reused there.
type SeriesID uint32

// Declared says what a SeriesID stands for.
type Declared struct {
	ID     SeriesID
	Metric string
	Alloc  AllocID // empty for the node's own
	Scale  uint32  // how many units make 1 of the metric: 10 for tenths; at least 1
}

// Value is the last value of a series.
type Value struct {
	Series SeriesID
	Units  int64
}

// UseValue is what an allocation's series was like in the last whole slot.
type UseValue struct {
	Series         SeriesID
	Mean, Max, P95 int64 // units
}

// Forecast is what a series is expected to be over a Projection's horizon.
type Forecast struct {
	Series      SeriesID
	Mean, Upper int64 // in the unit of the Dimension: MHz, MiB, …
}

// Slot is what the node's own series were like in one span of 10 s, in the
// encoding of package telemetry.
type Slot struct {
	Number int64 // spans since the Unix epoch
	Data   []byte
}
