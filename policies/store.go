package policies

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/hclspec"
)

// Store holds the set in force and replaces it while it is in use.
type Store struct {
	config  Config
	current atomic.Pointer[Set]

	mu       sync.Mutex // held while the set in force is replaced
	previous *Set       // that Rollback returns to; nil for none
}

// NewStore loads the bundle in a directory.
func NewStore(dir string, config Config) (*Store, error) {
	s := &Store{config: config}
	if err := s.Reload(dir); err != nil {
		return nil, err
	}
	return s, nil
}

// Current is the set in force. Whoever needs one set for several calls keeps what
// it returns.
func (s *Store) Current() *Set { return s.current.Load() }

// Reload loads the bundle in a directory and puts it in force, together with
// the answers of the data sources that it shares with the set before. It is
// built and rehearsed beside the one in force, which decides meanwhile and is left
// its processors (Config.ReloadShare). On an error the set before stays in force.
func (s *Store) Reload(dir string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.current.Load()
	var pace *pace // nobody waits for the first one's sake
	if before != nil {
		pace = before.config.pace(maxPaced)
	}
	next, err := s.config.loadAt(dir, pace)
	if err != nil {
		return fmt.Errorf("reload policies: %w", err)
	}
	if before != nil {
		next.take(before.fed.Load())
		if err := next.rehearse(before.viewer.latest(), before.ruledLast(maxRehearsed), pace); err != nil {
			return fmt.Errorf("reload policies: %w", err)
		}
	}
	s.replace(before, next)
	if before == nil || before.Digest() != next.Digest() {
		s.previous = before
	}
	return nil
}

// Rollback puts the set before the last reload that changed the bundle in force
// again, with what its data sources have answered since. A second one undoes the
// first.
func (s *Store) Rollback() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.previous == nil {
		return errors.New("roll back policies: there has been no other bundle")
	}
	before, next := s.current.Load(), s.previous
	s.replace(before, next)
	s.previous = before
	return nil
}

// replace puts next in force with all that was fed to before until then.
func (s *Store) replace(before, next *Set) {
	if before == nil {
		s.current.Store(next)
		return
	}
	next.take(before.fed.Load())
	s.current.Store(next)
	next.take(before.fed.Load()) // what came in between
}

// rehearsed is how many workloads of the snapshot a new set rules on before it is
// in force, and maxRehearsed how many of those that the set before decided on last.
const (
	rehearsed    = 64
	maxRehearsed = 256
)

// rehearse rules on workloads of the last snapshot that the set before ruled
// on, with one row of each ruling compared with OPA, so that a policy whose
// compiled form differs is quarantined before it decides anything; and then
// without, so that the first cycle finds all its rulings made.
func (s *Set) rehearse(snapshot *psg.Snapshot, last []*psg.Workload, pace *pace) error {
	if snapshot == nil || len(snapshot.Nodes) == 0 {
		return nil
	}
	for i := range min(rehearsed, len(snapshot.Workloads)) {
		w := &snapshot.Workloads[i]
		if !slices.ContainsFunc(last, func(other *psg.Workload) bool { return other.ID == w.ID }) {
			last = append(last, w)
		}
	}
	every := s.audit.every
	if every > 0 {
		s.audit.every = uint64(len(snapshot.Nodes))
	}
	err := s.ruleEach(last, snapshot, pace)
	s.audit.every = every
	if err != nil {
		return err
	}
	return s.ruleEach(last, snapshot, pace)
}

func (s *Set) ruleEach(workloads []*psg.Workload, snapshot *psg.Snapshot, pace *pace) error {
	for _, w := range workloads {
		pace.rest()
		if _, err := s.Rule(context.Background(), w, snapshot); err != nil {
			return err
		}
	}
	return nil
}

// Sources are the data sources of the set in force.
func (s *Store) Sources() []hclspec.Source { return s.Current().Bundle().Sources }

// Feed feeds the set in force what a source answered; see Set.Feed. An answer to
// a question that the set does not ask by now is refused. If the set is replaced
// meanwhile, the new one is fed.
func (s *Store) Feed(source hclspec.Source, value any, at time.Time) error {
	for {
		set := s.Current()
		if known, ok := set.source(source.Name); ok && !known.Asks(source) {
			return fmt.Errorf("feed data %q: %w: the source of that name in force is another", source.Name, psg.ErrUnknown)
		}
		if err := set.Feed(source.Name, value, at); err != nil || s.Current() == set {
			return err
		}
	}
}
