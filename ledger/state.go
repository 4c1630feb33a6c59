// Package ledger folds the log's records into state and checks them while it
// does: one leader an epoch, no ask placed twice, no decision over capacity.
//
// It is pure: the controller, its standbys, the audit checker and the
// simulator all fold the same records with this one piece of code. It does not
// store or transport anything; package bus does.
package ledger

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/psgrid/psg"
)

// Remembered is how many asks that are over the state still answers for, so
// that a request repeated after its end is not taken for a new one. The oldest
// is forgotten first.
const Remembered = 100_000

// State is what all records up to Sequence add up to. It is not safe for
// concurrent use; Snapshot too counts as a change.
type State struct {
	sequence  uint64
	epoch     psg.Epoch
	leader    string
	bundle    psg.Bundle
	nodes     map[psg.NodeID]*psg.Node
	workloads map[psg.WorkloadID]*psg.Workload
	asks      map[psg.RequestID]*psg.AskStatus // replaced, never changed: images and snapshots share them
	pending   map[psg.RequestID]*psg.AskStatus // the asks that still want a place
	held      map[psg.NodeID]*holdings
	over      []*psg.AskStatus                  // asks that are over, oldest first; at most Remembered
	expiring  map[psg.RequestID]struct{}        // the asks whose placement expires by itself
	waiting   map[psg.RequestID]struct{}        // the asks whose placement waits for others to make way
	claims    map[psg.RequestID][]psg.RequestID // those others, and for whom they do, by ID
	jobs      map[psg.JobID]*job                // those with a workload, or an ask that is not over

	view     psg.Snapshot // the last one made, whose slices others hold
	standing psg.Statuses // as of then: the asks that are not over
	changed  changes      // since then
}

// New returns the state before the first record.
func New() *State {
	return &State{
		nodes:     map[psg.NodeID]*psg.Node{},
		workloads: map[psg.WorkloadID]*psg.Workload{},
		asks:      map[psg.RequestID]*psg.AskStatus{},
		pending:   map[psg.RequestID]*psg.AskStatus{},
		held:      map[psg.NodeID]*holdings{},
		expiring:  map[psg.RequestID]struct{}{},
		waiting:   map[psg.RequestID]struct{}{},
		claims:    map[psg.RequestID][]psg.RequestID{},
		jobs:      map[psg.JobID]*job{},
		changed:   newChanges(),
	}
}

// Sequence is the position of the last record applied; 0 before the first.
func (s *State) Sequence() uint64 { return s.sequence }

// Epoch is the epoch of the last leader recorded; 0 before the first.
func (s *State) Epoch() psg.Epoch { return s.epoch }

// Leader is who leads Epoch.
func (s *State) Leader() string { return s.leader }

// Apply folds one record. An error means that the record breaks an invariant:
// the log, or whoever wrote it, is faulty, and the state must not be used on.
func (s *State) Apply(r psg.Record) error {
	if r.Sequence != s.sequence+1 {
		return fmt.Errorf("record %d does not follow record %d", r.Sequence, s.sequence)
	}
	if err := s.admit(r); err != nil {
		return fmt.Errorf("record %d: %w", r.Sequence, err)
	}
	for i, d := range r.Deltas {
		if err := s.Fold(d, r.Sequence); err != nil {
			return fmt.Errorf("record %d, delta %d: %w", r.Sequence, i, err)
		}
	}
	s.sequence = r.Sequence
	return nil
}

// admit checks that a record belongs to the leading epoch, or opens the next.
func (s *State) admit(r psg.Record) error {
	if r.Epoch == 0 && len(r.Deltas) == 0 {
		return nil // in the log, but of no leader
	}
	if len(r.Deltas) > 0 {
		if led, opens := r.Deltas[0].(psg.Led); opens {
			if led.Epoch != r.Epoch || led.Epoch <= s.epoch {
				return fmt.Errorf("epoch %d cannot follow epoch %d", r.Epoch, s.epoch)
			}
			return nil
		}
	}
	if r.Epoch != s.epoch {
		return fmt.Errorf("epoch %d writes while epoch %d leads", r.Epoch, s.epoch)
	}
	return nil
}

// Committed moves the position on to a record whose deltas have all been
// folded already, as the leader does with what it has seen itself.
func (s *State) Committed(sequence uint64) { s.sequence = sequence }

// Node returns a node, or nil.
func (s *State) Node(id psg.NodeID) *psg.Node { return s.nodes[id] }

// Workload returns a workload, or nil.
func (s *State) Workload(id psg.WorkloadID) *psg.Workload { return s.workloads[id] }

// Ask returns where an ask stands, or nil if it was never seen or is forgotten.
// The caller must not change it.
func (s *State) Ask(id psg.RequestID) *psg.AskStatus { return s.asks[id] }

// Asks returns where every ask stands, by ID.
func (s *State) Asks() []psg.AskStatus {
	asks := make([]psg.AskStatus, 0, len(s.asks))
	for _, status := range s.asks {
		asks = append(asks, *status)
	}
	slices.SortFunc(asks, func(a, b psg.AskStatus) int { return cmp.Compare(a.Ask.ID, b.Ask.ID) })
	return asks
}

// Pending returns the asks that still want a place, by ID.
func (s *State) Pending() []psg.Ask {
	asks := make([]psg.Ask, 0, len(s.pending))
	for _, status := range s.pending {
		asks = append(asks, status.Ask)
	}
	slices.SortFunc(asks, func(a, b psg.Ask) int { return cmp.Compare(a.ID, b.ID) })
	return asks
}

// PendingCount is how many asks still want a place.
func (s *State) PendingCount() int { return len(s.pending) }

// Expiring returns the asks whose reservation ends at a time, by ID.
func (s *State) Expiring() []psg.RequestID { return slices.Sorted(maps.Keys(s.expiring)) }
