package psg

import "context"

// Sequel judges the placements of one plan one after another, each on the
// cluster as those before it leave it: the Rulings that the plan was made from
// saw the Snapshot only. It is for one goroutine.
type Sequel interface {
	// Free takes away what an ask holds, such as a reservation that is used, or what
	// it was admitted to as a member of a gang.
	Free(ask RequestID)
	// Admit says what denies a placement now; none means that it is allowed, and
	// it counts from then on. The error is only ever that ctx ended.
	Admit(ctx context.Context, w *Workload, p Placement) ([]Reason, error)
	// Judged is how often policy had to be asked.
	Judged() int
}
