package driver

import (
	"context"
	"slices"
	"sync"
)

// backlog is how many events are kept for one follower, or while there is none.
// When full, the oldest is dropped: newer ones say more about the task.
const backlog = 256

// feed hands events to every subscriber in order.
type feed struct {
	mu          sync.Mutex
	kept        []Event // for the next follower, while there is none
	subscribers map[*subscriber]struct{}
}

type subscriber struct {
	pending []Event
	wake    chan struct{}
}

func (f *feed) emit(e Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.subscribers) == 0 {
		f.kept = push(f.kept, e)
	}
	for s := range f.subscribers {
		s.pending = push(s.pending, e)
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

func push(events []Event, e Event) []Event {
	if len(events) == backlog {
		events = append(events[:0], events[1:]...)
	}
	return append(events, e)
}

// follow calls send with each event until ctx ends or send fails. A follower that
// is alone also gets what happened while there was none, and what could not be
// sent to the last one.
func (f *feed) follow(ctx context.Context, send func(Event) error) error {
	s := &subscriber{wake: make(chan struct{}, 1)}
	f.mu.Lock()
	if f.subscribers == nil {
		f.subscribers = map[*subscriber]struct{}{}
	}
	s.pending, f.kept = f.kept, nil
	f.subscribers[s] = struct{}{}
	f.mu.Unlock()
	defer f.leave(s)
	for {
		f.mu.Lock()
		events := s.pending
		s.pending = nil
		f.mu.Unlock()
		for i, e := range events {
			if err := send(e); err != nil {
				f.giveBack(s, events[i:])
				return err
			}
		}
		if len(events) > 0 {
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.wake:
		}
	}
}

// giveBack takes what could not be sent to a follower, before what came since.
func (f *feed) giveBack(s *subscriber, unsent []Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := append(slices.Clone(unsent), s.pending...)
	s.pending = all[max(0, len(all)-backlog):]
}

// leave ends a follower; the last one leaves what it was not told to the next.
func (f *feed) leave(s *subscriber) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.subscribers, s)
	if len(f.subscribers) == 0 {
		f.kept = s.pending
	}
}
