package psg

import "time"

// Record is one entry of the ledger: everything one cycle commits, at once.
type Record struct {
	Sequence uint64    // position in the ledger, from 1; set by the log, not part of the stored bytes
	Epoch    Epoch     // the leader that wrote it
	At       time.Time // that leader's clock
	Deltas   []Delta   // in the order they apply
}

// OrderKind is what an order asks a node, or the orchestrator, to do.
type OrderKind string

// The orders.
const (
	Grant    OrderKind = "grant"    // open the gate: start with these devices
	Wait     OrderKind = "wait"     // stay gated, and tell the user why
	Steer    OrderKind = "steer"    // tell the orchestrator which node is planned
	Stop     OrderKind = "stop"     // end gracefully, within Deadline
	Throttle OrderKind = "throttle" // limit to Limit
	Freeze   OrderKind = "freeze"   // stop scheduling its processes
	Thaw     OrderKind = "thaw"     // undo Freeze and Throttle; without an allocation, all of them and Drain
	Evict    OrderKind = "evict"    // end its processes: gracefully, and by force at Deadline
	Drain    OrderKind = "drain"    // say that the node is to be left, and evict what is still there at Deadline
	Entrust  OrderKind = "entrust"  // act by Mandate, until Deadline
)

// Order is what a committed decision asks somebody to do. It is idempotent by
// (Epoch, Sequence, Ask), and whoever carries it out refuses one of an older
// epoch than it has seen. A node's agent, whose orders concern allocations, goes
// by (Epoch, Sequence) for each of them: the leader counts those orders.
type Order struct {
	Kind     OrderKind     `json:"kind"`
	Epoch    Epoch         `json:"epoch"`
	Sequence uint64        `json:"sequence"` // of the record that decided it; for an agent's kinds, a count
	Ask      RequestID     `json:"ask"`
	Workload WorkloadID    `json:"workload"`
	Alloc    AllocID       `json:"alloc,omitempty"`
	Node     NodeID        `json:"node"`
	Devices  []DeviceShare `json:"devices,omitempty"`
	Limit    Resources     `json:"limit,omitzero"`
	// Deadline is how long Stop, Evict and Drain may take, and how long Throttle,
	// Freeze and Entrust hold.
	Deadline time.Duration `json:"deadline_ns,omitempty"`
	Mandate  *Mandate      `json:"mandate,omitempty"` // for Entrust
	Refusal  *Refusal      `json:"refusal,omitempty"` // for Wait and Steer: why not here
}
