package policies

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/psgrid/psg/hclspec"
)

// Store holds the set in force and replaces it while it is in use.
type Store struct {
	config  Config
	current atomic.Pointer[Set]
}

// NewStore loads the bundle in a directory.
func NewStore(dir string, config Config) (*Store, error) {
	s := &Store{config: config}
	if err := s.Reload(dir); err != nil {
		return nil, err
	}
	return s, nil
}

// Current is the set in force. A cycle takes it once and keeps to it.
func (s *Store) Current() *Set { return s.current.Load() }

// Reload loads the bundle in a directory and puts it in force, together with
// the answers of the data sources that it shares with the set before. On an
// error the set before stays in force.
func (s *Store) Reload(dir string) error {
	next, err := s.config.Load(dir)
	if err != nil {
		return fmt.Errorf("reload policies: %w", err)
	}
	for {
		before := s.current.Load()
		if before != nil {
			next.fed.Store(next.fed.Load().adopt(before.fed.Load()))
		}
		if s.current.CompareAndSwap(before, next) {
			return nil
		}
	}
}

// Sources are the data sources of the set in force.
func (s *Store) Sources() []hclspec.Source { return s.Current().Bundle().Sources }

// Feed feeds the set in force; see Set.Feed.
func (s *Store) Feed(source string, value any, at time.Time) error {
	for {
		set := s.Current()
		if err := set.Feed(source, value, at); err != nil {
			return err
		}
		if s.Current() == set {
			return nil // else a reload may have missed it
		}
	}
}
