package telemetry

import (
	"time"

	"github.com/psgrid/psg"
)

// Horizon is how far forecasts reach.
const Horizon = 5 * time.Minute

// projected is the dimension that forecasts of a metric are for, if any.
func projected(metric string) (psg.Dimension, bool) {
	switch metric {
	case "cpu_percent":
		return psg.CPU, true
	case "memory_used_mb", "memory_mb":
		return psg.Memory, true
	}
	return 0, false
}
