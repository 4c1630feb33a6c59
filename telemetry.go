package psg

import "time"

// Telemetry is what was last measured on a node. It is immutable once made.
type Telemetry struct {
	At      time.Time        `json:"at"`
	Metrics map[string]Stats `json:"metrics"`          // by name with unit: "cpu_percent", "memory_used_mb"
	Allocs  []AllocTelemetry `json:"allocs,omitempty"` // sorted by Alloc
}

// Stats summarises one metric: over the last 10 s and, once known, over longer
// windows.
type Stats struct {
	Last    float64  `json:"last"`
	Mean    float64  `json:"mean"`
	Max     float64  `json:"max"`
	P50     float64  `json:"p50"`
	P95     float64  `json:"p95"`
	P99     float64  `json:"p99"`
	Over60s *Summary `json:"over_60s,omitempty"` // nil while nothing is known of it
	Over5m  *Summary `json:"over_5m,omitempty"`  // likewise
}

// Summary is what one metric was like over a window.
type Summary struct {
	Mean float64 `json:"mean"`
	Max  float64 `json:"max"`
	P50  float64 `json:"p50"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
}

// AllocTelemetry is what was last measured of one allocation.
type AllocTelemetry struct {
	Alloc      AllocID        `json:"alloc"`
	Metrics    map[string]Use `json:"metrics"` // by name with unit: "cpu_percent", "memory_mb"
	Projection *Projection    `json:"projection,omitempty"`
}

// Use summarises one metric of an allocation: its last value, and the last
// whole 10 s.
type Use struct {
	Last float64 `json:"last"`
	Mean float64 `json:"mean"`
	Max  float64 `json:"max"`
	P95  float64 `json:"p95"`
}

// Projection is the forecast of use over the Horizon that follows At.
type Projection struct {
	At      time.Time     `json:"at"`
	Horizon time.Duration `json:"horizon_ns"`
	Mean    Resources     `json:"mean"`
	Upper   Resources     `json:"upper"` // the value that use stays below with the forecast's stated confidence
}
