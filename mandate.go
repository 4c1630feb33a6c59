package psg

import "time"

// Mandate is what a node's agent may do by itself, for as long as the order
// that carries it holds. An allocation that it does not name is never throttled
// unasked, and its suffering is not judged.
type Mandate struct {
	// CPU is the node's, in MHz: what floors and limits in MHz are shares of.
	CPU     int64    `json:"cpu_mhz"`
	Charges []Charge `json:"charges,omitempty"` // by Alloc
}

// Charge is what an agent is told of one allocation on its node: that it is
// protected, or that it yields, never both.
type Charge struct {
	Alloc     AllocID    `json:"alloc"`
	Workload  WorkloadID `json:"workload"`
	Protected bool       `json:"protected,omitempty"` // whoever harms it may be throttled
	Yields    bool       `json:"yields,omitempty"`    // it may be throttled, down to Floor
	Floor     Resources  `json:"floor,omitzero"`
	Probe     *Probe     `json:"probe,omitempty"` // how a protected one is; nil: by its pressure alone
}

// Probe is a workload's own word for how it is to be asked whether it is well.
type Probe struct {
	// Port is a port's label, or its number on the node's loopback.
	Port      string        `json:"port"`
	Path      string        `json:"path,omitempty"` // of an HTTP GET; empty means a TCP connection
	Interval  time.Duration `json:"interval_ns"`
	Objective time.Duration `json:"objective_ns"` // slower than this, it suffers
}

// ReportState is how an order ended.
type ReportState string

// The states of a report.
const (
	ReportBegun   ReportState = "begun"   // of Evict and Drain: another report follows
	ReportDone    ReportState = "done"    // carried out
	ReportRefused ReportState = "refused" // not tried: stale, malformed, or for another node
	ReportFailed  ReportState = "failed"  // tried, and could not be done
	ReportUndone  ReportState = "undone"  // what was in force is so no more
)

// Report says how a node's agent carried out an order, or what it did within
// its mandate.
type Report struct {
	Node     NodeID      `json:"node"`
	Kind     OrderKind   `json:"kind"`
	Epoch    Epoch       `json:"epoch"`    // of the order, or of the mandate
	Sequence uint64      `json:"sequence"` // likewise
	Ask      RequestID   `json:"ask,omitempty"`
	Alloc    AllocID     `json:"alloc,omitempty"`
	Unasked  bool        `json:"unasked,omitempty"` // the agent's own doing, by its mandate
	State    ReportState `json:"state"`
	Reason   string      `json:"reason,omitempty"`
	At       time.Time   `json:"at"`             // the node's clock
	Until    time.Time   `json:"until,omitzero"` // when what was done is undone by itself
}
