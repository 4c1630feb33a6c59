package psg

import "time"

// Telemetry is what was last measured on a node.
type Telemetry struct {
	At      time.Time        `json:"at"`
	Metrics map[string]Stats `json:"metrics"` // by name with unit: "cpu_percent", "memory_used_mb"
}

// Stats summarises one metric over a window.
type Stats struct {
	Last float64 `json:"last"`
	Mean float64 `json:"mean"`
	Max  float64 `json:"max"`
	P50  float64 `json:"p50"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
}

// Projection is the forecast of use over the Horizon that follows At.
type Projection struct {
	At      time.Time     `json:"at"`
	Horizon time.Duration `json:"horizon_ns"`
	Mean    Resources     `json:"mean"`
	Upper   Resources     `json:"upper"` // the value that use stays below with the forecast's stated confidence
}
