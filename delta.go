package psg

import "time"

// Delta is one change of what PSG knows: something seen in the world, or
// something decided. A Record is the deltas that one cycle commits; replaying
// them in order gives the ledger's state and the placement engine's.
type Delta interface{ delta() }

// Led says that a controller became leader. It opens each epoch.
type Led struct {
	Epoch  Epoch
	Leader string // controller instance
}

// NodeChanged says that a node appeared or changed.
type NodeChanged struct{ Node Node }

// NodeGone says that a node left for good; what it held is lost.
type NodeGone struct{ Node NodeID }

// NodeObserved carries telemetry. It changes rulings and scores, never
// capacity, and is not recorded in the ledger: what its Inventory has that is new
// is recorded as a NodeChanged.
type NodeObserved struct {
	Node       NodeID
	Telemetry  Telemetry
	Projection *Projection // nil without one
	Inventory  *Inventory  // what the agent said last of the node's devices; nil: nothing
}

// WorkloadChanged says that a workload was registered or changed.
type WorkloadChanged struct{ Workload Workload }

// WorkloadGone says that a workload is no longer wanted.
type WorkloadGone struct{ Workload WorkloadID }

// Asked says that an ask was accepted: from here on it is never forgotten.
type Asked struct{ Ask Ask }

// Refused says that an ask was denied, queued, or planned elsewhere, and why.
// It repeats only when the state or the summary changes.
type Refused struct {
	Refusal Refusal
	At      time.Time
}

// Placed says that room was taken for an ask, in the placement's state:
// Reserved until it expires, or Granted. For an ask that holds room already it
// replaces what was held.
type Placed struct{ Placement Placement }

// Moved says that a placement went on to another state that holds the same
// room: Steered, Running, Moving, Ending. A reason, if given, is news of its own.
type Moved struct {
	Ask    RequestID
	State  State
	Reason string
	At     time.Time
}

// Freed says that an ask is over, in state Released or Lost: its room is free.
type Freed struct {
	Ask    RequestID
	State  State
	Reason string
	At     time.Time
}

// BundleChanged says that another version of the policies is in force.
type BundleChanged struct {
	Bundle Bundle
	At     time.Time
}

func (Led) delta()             {}
func (NodeChanged) delta()     {}
func (NodeGone) delta()        {}
func (NodeObserved) delta()    {}
func (WorkloadChanged) delta() {}
func (WorkloadGone) delta()    {}
func (Asked) delta()           {}
func (Refused) delta()         {}
func (Placed) delta()          {}
func (Moved) delta()           {}
func (Freed) delta()           {}
func (BundleChanged) delta()   {}
