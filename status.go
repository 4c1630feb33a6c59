package psg

import "time"

// AskStatus is where one ask stands, and why: what the ledger keeps for it and
// what users are shown.
type AskStatus struct {
	Ask       Ask        `json:"ask"`
	State     State      `json:"state"`
	Since     time.Time  `json:"since"`               // when it entered State
	Sequence  uint64     `json:"sequence"`            // record that last changed it; rises with every answer
	Placement *Placement `json:"placement,omitempty"` // set while it holds room
	Refusal   *Refusal   `json:"refusal,omitempty"`   // set while Denied, Queued or Elsewhere, and kept when such an ask is over
	Reason    string     `json:"reason,omitempty"`    // why it was Released or Lost
}

// Pending reports whether the ask still wants a place.
func (s *AskStatus) Pending() bool {
	switch s.State {
	case Submitted, Gated, Denied, Queued, Elsewhere:
		return true
	}
	return false
}

// Over reports whether the ask has come to its end and holds nothing.
func (s *AskStatus) Over() bool { return s.State == Released || s.State == Lost }
