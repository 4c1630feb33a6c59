package driver

import (
	"context"
	"sync"
)

// backlog is how many events are kept for one subscriber, or while there is
// none. When full, the oldest is dropped: newer ones say more about the task.
const backlog = 256

// feed hands events to every subscriber in order.
type feed struct {
	mu          sync.Mutex
	early       []Event // from before the first subscriber
	subscribers map[*subscriber]struct{}
	subscribed  bool
}

type subscriber struct {
	pending []Event
	wake    chan struct{}
}

func (f *feed) emit(e Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.subscribed {
		f.early = push(f.early, e)
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

// follow calls send with each event until ctx ends or send fails. The first
// follower also gets what happened before it came.
func (f *feed) follow(ctx context.Context, send func(Event) error) error {
	s := &subscriber{wake: make(chan struct{}, 1)}
	f.mu.Lock()
	if f.subscribers == nil {
		f.subscribers = map[*subscriber]struct{}{}
	}
	s.pending, f.early, f.subscribed = f.early, nil, true
	f.subscribers[s] = struct{}{}
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		delete(f.subscribers, s)
		f.mu.Unlock()
	}()
	for {
		f.mu.Lock()
		events := s.pending
		s.pending = nil
		f.mu.Unlock()
		for _, e := range events {
			if err := send(e); err != nil {
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
