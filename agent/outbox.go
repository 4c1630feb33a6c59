package agent

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/psgrid/psg"
)

// outbox holds samples until they are published. It is bounded: when full it
// drops them all, and a full sample has to say again what was in them.
type outbox struct {
	filled chan struct{} // has a token when something was put
	resync func()        // asks for a full sample

	mu      sync.Mutex
	ring    []psg.Sample
	head, n int
	dropped uint64
}

func newOutbox(size int, resync func()) outbox {
	return outbox{filled: make(chan struct{}, 1), resync: resync, ring: make([]psg.Sample, size)}
}

func (o *outbox) put(sample psg.Sample) {
	o.mu.Lock()
	if o.n == len(o.ring) {
		o.dropAll()
	}
	o.ring[(o.head+o.n)%len(o.ring)] = sample
	o.n++
	o.mu.Unlock()
	select {
	case o.filled <- struct{}{}:
	default: // a token is there already
	}
}

// take removes the oldest sample.
func (o *outbox) take() (sample psg.Sample, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.n == 0 {
		return psg.Sample{}, false
	}
	sample, o.ring[o.head] = o.ring[o.head], psg.Sample{}
	o.head = (o.head + 1) % len(o.ring)
	o.n--
	return sample, true
}

// fail drops the sample that was taken, which may not have arrived, and all
// that only make sense after it.
func (o *outbox) fail() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dropped++
	o.dropAll()
}

func (o *outbox) dropAll() {
	o.dropped += uint64(o.n)
	o.head, o.n = 0, 0
	clear(o.ring)
	o.resync()
}

func (o *outbox) droppedSoFar() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.dropped
}

// ErrResync is a Publisher's error that says that it works, but that readers may
// have missed what was published before.
var ErrResync = errors.New("readers need a full sample")

// The publisher's time limit, and how long it is left alone after a failure.
const (
	publishTimeout = 5 * time.Second // the first call may have to connect
	minRetry       = 100 * time.Millisecond
	maxRetry       = 5 * time.Second
)

// send publishes what is in the outbox, oldest first, until ctx ends. What could
// not be published is not kept: after a failure a full sample follows, and the
// slots that were missed trickle after it, one a sample.
func (a *Agent) send(ctx context.Context) {
	retry := time.Duration(0) // 0 while the publisher works
	for ctx.Err() == nil {
		sample, ok := a.outbox.take()
		if !ok {
			select {
			case <-ctx.Done():
				return
			case <-a.outbox.filled:
				continue
			}
		}
		err := a.publish(ctx, sample)
		if err == nil {
			if retry > 0 {
				a.config.Log.Info("telemetry is published again", "dropped", a.outbox.droppedSoFar())
			}
			retry = 0
			continue
		}
		a.outbox.fail()
		if errors.Is(err, ErrResync) {
			continue
		}
		if retry == 0 {
			a.config.Log.Warn("telemetry is not published, keeping slots only", "error", err)
		}
		retry = min(max(2*retry, minRetry), maxRetry)
		select {
		case <-ctx.Done():
			return
		case <-time.After(retry):
		}
	}
}

func (a *Agent) publish(ctx context.Context, sample psg.Sample) error {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	return a.publisher.Publish(ctx, sample)
}
