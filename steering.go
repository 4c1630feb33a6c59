package psg

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
}

// Verdict is what is said to whoever wants to register a workload: whether
// policy admits it, and where its instances are wanted.
type Verdict struct {
	Workload WorkloadID `json:"workload"`
	Rejected []Reason   `json:"rejected,omitempty"` // not admitted, anywhere
	Hint     Hint       `json:"hint,omitempty"`     // nil when there is nothing to say
	Hold     bool       `json:"hold,omitempty"`     // it must wait, holding nothing, until all of it has room
	Waiting  []Refusal  `json:"waiting,omitempty"`  // of instances that have no room yet
}

// ManagedLabel is "false" on a workload that the orchestrator places by itself:
// PSG counts what it holds and decides nothing about it.
const ManagedLabel = "psg.managed"

// Managed reports whether PSG places the workload.
func (w *Workload) Managed() bool { return w.Labels[ManagedLabel] != "false" }
