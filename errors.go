package psg

import "errors"

// The errors that cross package boundaries. Callers match them with errors.Is;
// rpc maps each to one gRPC code and one HTTP status.
var (
	// ErrUnknown says that an ID names nothing that PSG knows.
	ErrUnknown = errors.New("unknown")
	// ErrInvalid says that a request is malformed; retrying it cannot help.
	ErrInvalid = errors.New("invalid")
	// ErrBusy says that a bounded queue is full: nothing was accepted, retry later.
	ErrBusy = errors.New("busy")
	// ErrNotLeader says that another controller leads: retry there.
	ErrNotLeader = errors.New("not the leader")
	// ErrUnavailable says that a part this needs is down: nothing was accepted.
	ErrUnavailable = errors.New("unavailable")
)
