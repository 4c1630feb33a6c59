package agent

import (
	"context"
	"sync"
	"time"

	"github.com/psgrid/psg"
)

// outbox holds observations until they are published. It is bounded: when full
// it drops the oldest, as newer ones say more.
type outbox struct {
	filled chan struct{} // has a token when something was put

	mu      sync.Mutex
	ring    []psg.NodeObserved
	head, n int
	dropped uint64
}

func newOutbox(size int) outbox {
	return outbox{filled: make(chan struct{}, 1), ring: make([]psg.NodeObserved, size)}
}

func (o *outbox) put(observed psg.NodeObserved) {
	o.mu.Lock()
	if o.n == len(o.ring) {
		o.head = (o.head + 1) % len(o.ring)
		o.n--
		o.dropped++
	}
	o.ring[(o.head+o.n)%len(o.ring)] = observed
	o.n++
	o.mu.Unlock()
	select {
	case o.filled <- struct{}{}:
	default: // a token is there already
	}
}

// take removes the oldest observation.
func (o *outbox) take() (observed psg.NodeObserved, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.n == 0 {
		return psg.NodeObserved{}, false
	}
	observed, o.ring[o.head] = o.ring[o.head], psg.NodeObserved{}
	o.head = (o.head + 1) % len(o.ring)
	o.n--
	return observed, true
}

// putBack returns what take gave, as the oldest. If newer ones have filled the
// outbox meanwhile, it is dropped.
func (o *outbox) putBack(observed psg.NodeObserved) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.n == len(o.ring) {
		o.dropped++
		return
	}
	o.head = (o.head - 1 + len(o.ring)) % len(o.ring)
	o.ring[o.head] = observed
	o.n++
}

func (o *outbox) droppedSoFar() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.dropped
}

// The publisher's time limit, and how long it is left alone after a failure.
const (
	publishTimeout = 5 * time.Second // the first call may have to connect
	minRetry       = 100 * time.Millisecond
	maxRetry       = 5 * time.Second
)

// send publishes what is in the outbox, oldest first, until ctx ends.
func (a *Agent) send(ctx context.Context) {
	retry := time.Duration(0) // 0 while the publisher works
	for ctx.Err() == nil {
		observed, ok := a.outbox.take()
		if !ok {
			select {
			case <-ctx.Done():
				return
			case <-a.outbox.filled:
				continue
			}
		}
		err := a.publish(ctx, observed)
		if err == nil {
			if retry > 0 {
				a.config.Log.Info("telemetry is published again", "dropped", a.outbox.droppedSoFar())
			}
			retry = 0
			continue
		}
		a.outbox.putBack(observed)
		if retry == 0 {
			a.config.Log.Warn("telemetry is not published, keeping the newest", "error", err, "keep", a.config.Buffer)
		}
		retry = min(max(2*retry, minRetry), maxRetry)
		select {
		case <-ctx.Done():
			return
		case <-time.After(retry):
		}
	}
}

func (a *Agent) publish(ctx context.Context, observed psg.NodeObserved) error {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	return a.publisher.Publish(ctx, observed)
}
