package psg

import (
	"fmt"
	"time"
)

// Reservation asks for room ahead of the allocations that will use it, gives
// it back, or changes what a running allocation holds.
type Reservation struct {
	ID       RequestID     `json:"id"` // idempotency key
	Workload WorkloadID    `json:"workload"`
	Count    int           `json:"count"`             // instances to hold room for; all or none
	Node     NodeID        `json:"node,omitempty"`    // where; empty means anywhere
	Hold     time.Duration `json:"hold_ns"`           // how long the room stays held
	Alloc    AllocID       `json:"alloc,omitempty"`   // set: resize what this allocation holds to Request
	Request  Resources     `json:"request"`           // with Alloc: the new amounts
	Release  bool          `json:"release,omitempty"` // give reservation ID back
}

// The bounds of one reservation.
const (
	MaxReservationCount = 10_000
	MaxReservationHold  = 7 * 24 * time.Hour
)

// Validate reports the first field that makes no sense.
func (r Reservation) Validate() error {
	switch {
	case r.ID == "":
		return fmt.Errorf("request_id is empty: %w", ErrInvalid)
	case r.Release:
		return nil
	case r.Alloc != "":
		if err := r.Request.Validate(); err != nil {
			return fmt.Errorf("request: %w: %w", err, ErrInvalid)
		}
		return nil
	case r.Count < 1 || r.Count > MaxReservationCount:
		return fmt.Errorf("count %d is outside 1..%d: %w", r.Count, MaxReservationCount, ErrInvalid)
	case r.Hold <= 0 || r.Hold > MaxReservationHold:
		return fmt.Errorf("hold %s is outside 0..%s: %w", r.Hold, MaxReservationHold, ErrInvalid)
	}
	return nil
}

// Ask returns the ask of the i-th instance. Its ID derives from the
// reservation's.
func (r Reservation) Ask(i int, at time.Time) Ask {
	return Ask{
		ID:       RequestID(fmt.Sprintf("%s/%d", r.ID, i)),
		Workload: r.Workload, Node: r.Node, At: at, Hold: r.Hold,
	}
}
