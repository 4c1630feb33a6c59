package shim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/psgrid/psg"
)

const (
	// scopeFor is how long a list of namespaces that the controllers gave is taken
	// for theirs without asking again, scopeAgain how long after a failure nobody is
	// asked.
	scopeFor   = 10 * time.Second
	scopeAgain = time.Second
)

// scope tells in which namespaces PSG places jobs: those that the operator lists,
// or else those that the controllers say, or said last. One caller at a time asks
// them.
type scope struct {
	fixed []string
	ask   func(context.Context) ([]string, error)
	turn  chan struct{} // holds one while somebody asks

	mu   sync.Mutex
	said said
}

// said is what the controllers said last.
type said struct {
	list  []string // none for all
	known bool
	err   error     // of the last time they were asked
	next  time.Time // when to ask again
}

func newScope(fixed []string, ask func(context.Context) ([]string, error)) *scope {
	return &scope{fixed: fixed, ask: ask, turn: make(chan struct{}, 1)}
}

// errUnknownScope is of controllers that do not say where they place jobs: their
// verdicts do.
var errUnknownScope = errors.New("the controllers do not say in which namespaces they place jobs")

// holds reports whether PSG places jobs in a namespace. It fails when nobody has
// said so, with psg.ErrUnavailable when nobody could be asked.
func (s *scope) holds(ctx context.Context, namespace string) (bool, error) {
	if len(s.fixed) > 0 {
		return slices.Contains(s.fixed, namespace), nil
	}
	last := s.latest(ctx)
	if !last.known {
		return false, last.err
	}
	return len(last.list) == 0 || slices.Contains(last.list, namespace), nil
}

// latest is what the controllers say. While another caller asks, it is what they
// said last, for they may hang; only if they have said nothing yet does it wait.
func (s *scope) latest(ctx context.Context) said {
	last := s.last()
	if time.Now().Before(last.next) {
		return last
	}
	select {
	case s.turn <- struct{}{}:
	default:
		if last.known {
			return last
		}
		select {
		case s.turn <- struct{}{}:
		case <-ctx.Done():
			return said{err: fmt.Errorf("%w: %w", psg.ErrUnavailable, ctx.Err())}
		}
	}
	defer func() { <-s.turn }()
	if last = s.last(); time.Now().Before(last.next) { // whoever had the turn has asked
		return last
	}
	last = last.renewed(s.ask(ctx))
	if ctx.Err() == nil { // else it is the caller who left
		s.mu.Lock()
		defer s.mu.Unlock()
		s.said = last
	}
	return last
}

func (s *scope) last() said {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said
}

// renewed is what is known once they were asked again.
func (s said) renewed(list []string, err error) said {
	now := time.Now()
	switch {
	case err == nil:
		return said{list: list, known: true, next: now.Add(scopeFor)}
	case errors.Is(err, psg.ErrUnavailable):
		s.err, s.next = err, now.Add(scopeAgain)
	default:
		s.err, s.next = fmt.Errorf("%w: %w", errUnknownScope, err), now.Add(scopeFor)
	}
	return s
}
