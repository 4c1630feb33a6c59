package telemetry

import (
	"math"
	"strings"
)

// maxUnits bounds a value, so that the sum of a slot cannot overflow.
const maxUnits = 1 << 50

// relativeDeadband is by how much of itself a value has to change to be sent.
const relativeDeadband = 0.005

// Scale is how many units make 1 of a metric, by the unit in its name.
func Scale(metric string) uint32 {
	switch {
	case strings.HasSuffix(metric, "_percent"):
		return 10
	case strings.HasSuffix(metric, "_mb"), strings.HasSuffix(metric, "_mhz"), strings.HasSuffix(metric, "_watts"),
		strings.HasSuffix(metric, "_kills"), strings.HasSuffix(metric, "_total"), strings.HasSuffix(metric, "_iops"):
		return 1
	}
	return 100
}

// unitsOf is a value in units, and whether it can be: it must be a number.
func unitsOf(value float64, scale uint32) (units int64, ok bool) {
	units64 := math.Round(value * float64(scale))
	if math.IsNaN(units64) {
		return 0, false
	}
	return int64(min(max(units64, -maxUnits), maxUnits)), true
}

// differs reports whether a value has left the one that was sent.
func differs(units, sent int64) bool {
	change := math.Abs(float64(units - sent))
	return change >= 1 && change > relativeDeadband*math.Abs(float64(sent))
}
