package psg

import (
	"fmt"
	"time"
)

// Leader is the controller that leads, and where it answers.
type Leader struct {
	Name string `json:"name"`
	GRPC string `json:"grpc,omitempty"` // host:port
	HTTP string `json:"http,omitempty"` // host:port
}

// Lease is the right to take the lead. It keeps controllers from contending;
// what keeps a stale one from committing is the ledger alone.
type Lease struct {
	Holder Leader // zero while nobody holds it
	Mine   bool
	Until  time.Time // if Mine: when to stop, by this process's clocks, unless it is renewed
}

// NotLeaderError is an ErrNotLeader that says who leads, if that is known.
type NotLeaderError struct {
	Controller string // that does not lead
	Leader     Leader // zero while nobody is known to lead
}

// Error names the leader.
func (e *NotLeaderError) Error() string {
	if e.Leader.Name == "" {
		return fmt.Sprintf("controller %s: %v: nobody is known to lead", e.Controller, ErrNotLeader)
	}
	return fmt.Sprintf("controller %s: %v: %s leads", e.Controller, ErrNotLeader, e.Leader.Name)
}

// Unwrap makes it an ErrNotLeader.
func (e *NotLeaderError) Unwrap() error { return ErrNotLeader }
