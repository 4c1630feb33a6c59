package psg

import "time"

// State is where an ask stands in its life. docs/design/0001 draws every edge.
//
//	submitted ─▶ denied ─┐
//	    │  ▲             │ policy, cluster or workload changes
//	    │  └─────────────┘
//	    ├──▶ queued ──▶ reserved ──▶ steered ──▶ gated ─┐
//	    └───────────────────────────────────────────────┴─▶ granted ─▶ running
//	running ─▶ moving ─▶ granted         any ─▶ ending ─▶ released         running ─▶ lost
type State string

// The states.
const (
	Submitted State = "submitted" // known, not yet ruled
	Denied    State = "denied"    // policy rejects the workload, or denies every node
	Queued    State = "queued"    // no room now; holds nothing
	Reserved  State = "reserved"  // room is held until the reservation expires
	Steered   State = "steered"   // the orchestrator was told where
	Gated     State = "gated"     // an allocation waits at its node's gate
	Elsewhere State = "elsewhere" // gated on a node that is not the planned one
	Granted   State = "granted"   // told to start
	Running   State = "running"   // seen running
	Moving    State = "moving"    // destination reserved, source still running
	Ending    State = "ending"    // the orchestrator stops it; its tasks may run yet
	Lost      State = "lost"      // its node is down
	Released  State = "released"  // over; holds nothing
)

// Holds reports whether an ask in this state holds capacity on its node.
func (s State) Holds() bool {
	switch s {
	case Reserved, Steered, Granted, Running, Moving, Ending:
		return true
	}
	return false
}

// Leaves reports whether an ask in this state is about to end where it is, for
// another in its place if one is still wanted.
func (s State) Leaves() bool { return s == Moving || s == Ending }

// Ask is one instance of a workload that wants a place.
type Ask struct {
	ID       RequestID     `json:"id"`
	Workload WorkloadID    `json:"workload"`
	Alloc    AllocID       `json:"alloc,omitempty"`   // empty for a reservation
	Node     NodeID        `json:"node,omitempty"`    // where the orchestrator put it already; empty means free choice
	At       time.Time     `json:"at"`                // first submitted
	Hold     time.Duration `json:"hold_ns,omitempty"` // how long a reservation stays; 0 means the ask is for a grant
	// Started says that the gate opened by itself while no controller answered
	// (fail = "open"): the ask is a fact to account, not a question.
	Started bool `json:"started,omitempty"`
}

// Placement is room held on one node for one ask.
type Placement struct {
	Ask     Ask           `json:"ask"`
	Node    NodeID        `json:"node"`
	State   State         `json:"state"`
	Request Resources     `json:"request"` // held now: the workload's, unless ReserveResources changed it
	Devices []DeviceShare `json:"devices,omitempty"`
	Ports   []PortShare   `json:"ports,omitempty"`
	Expires time.Time     `json:"expires,omitzero"` // for Reserved and Steered; zero means never
	Score   []ScorePart   `json:"score,omitempty"`
	Since   time.Time     `json:"since"` // when it entered State
	// Victims are the asks that must make way: while there are any the placement
	// is Reserved, its room is held beside theirs, and Expires says when it is
	// given up. Each is named by one placement at most, or by several of one gang.
	// It is placed anew, with none, once none of them holds room on Node.
	Victims []RequestID `json:"victims,omitempty"`
	// Audit is why policies in audit mode would have denied it.
	Audit []Reason `json:"audit,omitempty"`
}

// Waits reports whether others have yet to make way for the placement.
func (p *Placement) Waits() bool { return len(p.Victims) > 0 }

// DeviceShare is the part of one device that a placement holds.
type DeviceShare struct {
	Device   DeviceID `json:"device"`
	Ask      int      `json:"ask"` // index into Workload.Devices
	MilliGPU int64    `json:"milli_gpu"`
	MemoryMB int64    `json:"memory_mb,omitempty"`
	Profile  string   `json:"profile,omitempty"`
	Slot     int      `json:"slot,omitempty"` // first memory slice of a MIG profile
}

// PortShare is one static port that a placement holds. Dynamic ports are
// chosen by the orchestrator; PSG only counts them.
type PortShare struct {
	Label string `json:"label"`
	Port  int    `json:"port"`
	Host  string `json:"host_network,omitempty"`
}

// ScorePart is one named contribution to why this node was chosen.
type ScorePart struct {
	Name   string `json:"name"`   // "policy", "affinity", "spread", "binpack", …
	Points int64  `json:"points"` // milli-points
}

// Refusal is why an ask got no place. It is a value, not an error: the ask may
// be placed in a later cycle.
type Refusal struct {
	Ask      RequestID   `json:"ask"`
	State    State       `json:"state"`          // Denied, Queued or Elsewhere
	Node     NodeID      `json:"node,omitempty"` // for Elsewhere: the planned node
	Summary  string      `json:"summary"`        // one line for people: "no node has room: memory_mb short by 512 on node-2"
	Excluded []Exclusion `json:"excluded,omitempty"`
	Nearest  []NearMiss  `json:"nearest,omitempty"` // closest first, at most three
	// Remedies are changes of which each alone would have made it fit, the
	// smallest first: at most one of each kind. None are given for gangs.
	Remedies []Remedy `json:"remedies,omitempty"`
}

// RemedyKind is what a remedy changes.
type RemedyKind string

// The kinds of remedies.
const (
	RemedyAskLess RemedyKind = "ask-less" // the workload asks for less
	RemedyDrop    RemedyKind = "drop"     // the workload does without a constraint
	RemedyStop    RemedyKind = "stop"     // one placement ends
	RemedyLift    RemedyKind = "lift"     // what keeps it off one node goes: a card or port comes free, policy allows it
)

// Remedy is one change after which a refused ask would have had a place, all
// else being as it was.
type Remedy struct {
	Kind RemedyKind `json:"kind"`
	Node NodeID     `json:"node"`          // where it would be placed then
	Ask  RequestID  `json:"ask,omitempty"` // for RemedyStop: what ends
	Text string     `json:"text"`          // for people: "ask for 200 cpu_mhz less"
}

// Exclusion is one reason and how many nodes it alone or with others excludes.
type Exclusion struct {
	Reason Reason `json:"reason"`
	Nodes  int    `json:"nodes"`
}

// NearMiss is a node that almost fits, with all that is missing there.
type NearMiss struct {
	Node    NodeID   `json:"node"`
	Missing []Reason `json:"missing"`
}

// Plan is what one cycle decided: for each ask a placement or a refusal, in
// the order of the asks. Unreached asks were not considered before the
// deadline.
type Plan struct {
	Placements []Placement `json:"placements"`
	Refusals   []Refusal   `json:"refusals"`
	// Consumed are reservations whose room went to the placements: they are
	// committed as Freed before the placements are.
	Consumed  []RequestID `json:"consumed,omitempty"`
	Unreached []RequestID `json:"unreached,omitempty"`
}
