package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/wire"
)

// LeaseTTL is how long a lease stays its holder's after it was last renewed,
// unless a test says otherwise.
const LeaseTTL = 2 * time.Second

// takeTimeout bounds one try to take a lease that is not ours. While a cluster
// elects its leaders tries are lost, and the next succeeds; one that did without
// an answer is found by the next look.
const takeTimeout = 500 * time.Millisecond

// leaseKey is the one key of the lease bucket.
const leaseKey = "leader"

// Lease lets one of several controllers lead at a time: one key that its holder
// keeps writing. Whoever has seen it unchanged for its TTL may take it, by a
// write that names the revision seen, of which NATS lets one through. Each
// process trusts its own clock alone, and only for how long something took.
//
// It is for one goroutine at a time. It implements the controller's Lease.
type Lease struct {
	bus      *Bus
	self     psg.Leader
	instance string // tells this process from another of the same name
	ttl      time.Duration
	bucket   jetstream.KeyValue // nil until it was reached

	revision uint64 // as last seen
	holder   psg.Leader
	since    time.Time // when revision was first seen; of our own, when its write began
	mine     bool      // revision is ours
}

// Lease returns the lease, to be taken in the name of self; every controller
// must give the same ttl. CreateStreams must have been called on this cluster.
func (b *Bus) Lease(self psg.Leader, ttl time.Duration) *Lease {
	return &Lease{bus: b, self: self, instance: nuid.Next(), ttl: ttl}
}

// Take takes the lease if nobody holds it, renews it if this process does, and
// says whose it is. psg.ErrUnavailable means that it could not be asked; what
// was held is then held until the time that the last Take gave.
func (l *Lease) Take(ctx context.Context) (psg.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, l.ttl)
	defer cancel()
	if err := l.open(ctx); err != nil {
		return psg.Lease{}, l.failed("open", err)
	}
	if l.mine {
		return l.write(ctx, l.self)
	}
	ctx, cancel = context.WithTimeout(ctx, takeTimeout)
	defer cancel()
	if err := l.look(ctx); err != nil {
		return psg.Lease{}, l.failed("read", err)
	}
	if l.mine || l.holder.Name == "" || time.Since(l.since) >= l.ttl {
		return l.write(ctx, l.self)
	}
	return psg.Lease{Holder: l.holder}, nil
}

// Give gives the lease up, if this process holds it, so that another may take
// it at once.
func (l *Lease) Give(ctx context.Context) error {
	if !l.mine {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, l.ttl)
	defer cancel()
	_, err := l.write(ctx, psg.Leader{})
	if err == nil && l.mine { // a renewal that was not waited for came before it
		_, err = l.write(ctx, psg.Leader{})
	}
	return err
}

// open reaches for the bucket, which somebody may have deleted since
// CreateStreams: then all contend for a new one.
func (l *Lease) open(ctx context.Context) (err error) {
	if l.bucket != nil {
		return nil
	}
	if l.bucket, err = l.bus.js.KeyValue(ctx, leaseBucket); errors.Is(err, jetstream.ErrBucketNotFound) {
		l.bus.config.Log.Error("the lease's bucket is gone: it is made anew")
		l.bucket, err = l.bus.js.CreateKeyValue(ctx, l.bus.leaseBucket())
	}
	if err != nil {
		l.bucket = nil // what an interface holds beside an error is not to be called
	}
	return err
}

// look reads the key and notes when it changed. It asks the leader of the bucket's
// stream: the bucket itself would take the word of the nearest server, and a lease
// that one which lags still shows as it was cannot be taken by that revision.
func (l *Lease) look(ctx context.Context) error {
	found, err := l.bus.ask(ctx, "KV_"+leaseBucket, map[string]any{"last_by_subj": "$KV." + leaseBucket + "." + leaseKey})
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		l.revision, l.holder = 0, psg.Leader{}
		return nil
	}
	if err != nil {
		return err
	}
	if found.position == l.revision {
		return nil
	}
	holder, instance, err := wire.DecodeLease(found.data)
	if err != nil {
		// Of a later version, which renews it, or nobody's, and then it can be taken.
		l.bus.config.Log.Error("the lease says what this version cannot read", "error", err)
		holder, instance = psg.Leader{Name: "unknown"}, ""
	}
	l.revision, l.holder, l.since = found.position, holder, time.Now()
	l.mine = instance == l.instance && holder.Name != "" // a write of ours that was not acknowledged
	return nil
}

// write writes the key unless it has changed since it was last seen, and then
// says whose it is. One whose outcome is unknown is found out by the next.
func (l *Lease) write(ctx context.Context, holder psg.Leader) (psg.Lease, error) {
	value, err := wire.EncodeLease(holder, l.instance)
	if err != nil {
		return psg.Lease{}, err
	}
	began := time.Now()
	revision, err := l.bucket.Update(ctx, leaseKey, value, l.revision)
	switch {
	case err == nil:
		l.revision, l.holder, l.since, l.mine = revision, holder, began, holder.Name != ""
		return psg.Lease{Holder: holder, Mine: true, Until: began.Add(l.ttl * 9 / 10)}, nil
	case errors.Is(err, jetstream.ErrKeyRevisionMismatch):
		l.mine = false
		if err := l.look(ctx); err != nil {
			return psg.Lease{}, l.failed("read", err)
		}
		return psg.Lease{Holder: l.holder}, nil
	default:
		if errors.Is(err, jetstream.ErrNoStreamResponse) { // gone, or electing its leader
			ctx, cancel := context.WithTimeout(ctx, takeTimeout)
			defer cancel()
			err = errors.Join(err, l.look(ctx))
		}
		return psg.Lease{}, l.failed("write", err)
	}
}

// failed has the next try reach for the bucket anew if it is gone.
func (l *Lease) failed(what string, err error) error {
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		l.bucket = nil
	}
	return fmt.Errorf("%s lease: %w (%w)", what, err, psg.ErrUnavailable)
}
