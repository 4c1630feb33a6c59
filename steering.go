package psg

import "time"

// Hint says how many instances of one workload are wanted on each node. It is
// advice that the orchestrator follows while it can: work still starts
// elsewhere when its node is lost.
type Hint map[NodeID]int

// JobID names a job: what an orchestrator registers as one, all its groups.
type JobID struct {
	Namespace string `json:"namespace"`
	Job       string `json:"job"`
}

// JobID is the job that a workload is a group of.
func (id WorkloadID) JobID() JobID { return JobID{id.Namespace, id.Job} }

// Steering is what the orchestrator is to be told of one job.
type Steering struct {
	Job     JobID
	Hints   map[string]Hint // by group; groups without one stay as they are
	Release bool            // take the hold off
	// Supersede says that a running deployment waits for this very change: it
	// may be replaced by one of the same tasks. Otherwise it is left to end.
	Supersede bool
	// Waiting are the allocations that it waits with, which have not started.
	Waiting []AllocID
	// Shifts has instances of groups moved by starting others first, by group. A
	// hint for a group without one ends the shift that it has.
	Shifts map[string]Shift
	// Abandon ends the job's shifts although they run: what they have started is
	// stopped, and what was to move stays.
	Abandon bool
	// Gone, when set, has the hints written only if those that stand name one of
	// these nodes.
	Gone []NodeID
}

// Shift has a number of instances start elsewhere, and as many stopped on a node
// once those are healthy. It is all that the group has there.
type Shift struct {
	From  NodeID
	Moves int
}

// ShiftState is how far the shift of a job has come.
type ShiftState string

// The states of a shift.
const (
	ShiftRuns   ShiftState = "runs"   // others start, or are not healthy yet
	ShiftDone   ShiftState = "done"   // they took over
	ShiftFailed ShiftState = "failed" // they did not become healthy; what was to move runs on
	ShiftGone   ShiftState = "gone"   // the job was changed: nothing of the shift is left
)

// Rebalance asks to move what runs on a node to others.
type Rebalance struct {
	Node  NodeID
	Empty bool // everything must leave; otherwise only what is better placed elsewhere
	Max   int  // moves begun at once; 0 means a few
}

// Rebalanced is what came of it so far.
type Rebalanced struct {
	Orders   []Order `json:"orders"`   // moves that were begun: a Steer starts elsewhere first, a Stop here
	Finished []Move  `json:"finished"` // moves off the node that ended lately, oldest first
	Stays    []Stay  `json:"stays"`    // what is to leave and was not begun to move, by workload and allocation
}

// Stay is why an instance that is to leave a node does not just now.
type Stay struct {
	Workload WorkloadID `json:"workload"`
	Alloc    AllocID    `json:"alloc"`
	Reason   string     `json:"reason"`
}

// Move is what one move of an instance came to.
type Move struct {
	Workload  WorkloadID    `json:"workload"`
	Alloc     AllocID       `json:"alloc"`
	Successor AllocID       `json:"successor,omitempty"` // none when the move was given up
	From      NodeID        `json:"from"`
	To        NodeID        `json:"to"`
	Shift     bool          `json:"shift"`    // the successor was started first
	Gap       time.Duration `json:"gap_ns"`   // neither of the two ran
	Versions  int           `json:"versions"` // job versions written for it and those that moved with it
	Writes    int           `json:"writes"`   // write requests to the orchestrator, likewise; each is several entries of its log
	Together  int           `json:"together"` // moves that share them, this one included
	GivenUp   string        `json:"given_up,omitempty"`
	At        time.Time     `json:"at"` // when it ended
}

// Verdict is what is said to whoever wants to register a workload: whether
// policy admits it, and where its instances are wanted.
type Verdict struct {
	Workload WorkloadID `json:"workload"`
	Rejected []Reason   `json:"rejected,omitempty"` // not admitted, anywhere
	Hint     Hint       `json:"hint,omitempty"`     // nil when there is nothing to say
	Hold     bool       `json:"hold,omitempty"`     // it must wait, holding nothing, until all of it has room
	Waiting  []Refusal  `json:"waiting,omitempty"`  // of instances that have no room yet
	Outside  bool       `json:"outside,omitempty"`  // its namespace is none in which work is placed: nothing else is said of it
}

// ManagedLabel is "false" on a workload that the orchestrator places by itself:
// PSG counts what it holds and decides nothing about it.
const ManagedLabel = "psg.managed"

// Managed reports whether PSG places the workload.
func (w *Workload) Managed() bool { return w.Labels[ManagedLabel] != "false" }

// BlockReason is the kind of thing that an orchestrator's blocked evaluation
// waits for.
type BlockReason string

// The kinds.
const (
	BlockedByHold       BlockReason = "hold"          // PSG holds it until there is room for all of it
	BlockedByResources  BlockReason = "resources"     // no node has room
	BlockedByConstraint BlockReason = "constraint"    // no node satisfies what it demands
	BlockedByQuota      BlockReason = "quota"         // a quota is used up
	BlockedNoNodes      BlockReason = "no_nodes"      // no node is in its datacenters and pool
	BlockedByRejection  BlockReason = "plan_rejected" // the orchestrator's own plans were rejected again and again
	BlockedOtherwise    BlockReason = "other"
)

// Blockage is one thing that keeps a group of a job from being placed by the
// orchestrator.
type Blockage struct {
	Job    JobID       `json:"job"`
	Group  string      `json:"group,omitempty"` // empty when it is the whole job
	Reason BlockReason `json:"reason"`
	Text   string      `json:"text"`
}
