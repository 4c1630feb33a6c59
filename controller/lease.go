package controller

import (
	"context"
	"errors"
	"time"

	"github.com/psgrid/psg"
)

// Lease lets one of several controllers lead at a time. Take takes it if nobody
// holds it, renews it if this controller does, and says whose it is; Give gives
// it up. Neither is called while the other runs.
//
// The lease spares controllers from contending. It is not what keeps a stale
// leader from committing: the log's positions and epochs are.
type Lease interface {
	Take(ctx context.Context) (psg.Lease, error)
	Give(ctx context.Context) error
}

// unopposed is the lease of a controller that is alone.
type unopposed struct{ self psg.Leader }

func (u unopposed) Take(context.Context) (psg.Lease, error) {
	return psg.Lease{Holder: u.self, Mine: true, Until: time.Now().Add(time.Hour)}, nil
}

func (u unopposed) Give(context.Context) error { return nil }

// errLost ends a lead whose lease ran out or went to another.
var errLost = errors.New("the lease is lost")

// awaitLease tries to take the lease until it is ours. It looks more often than a
// holder renews: how long a standby takes to see a renewal, and to see that none
// came, adds to the time without a leader.
func (c *Controller) awaitLease(ctx context.Context) error {
	retry := time.NewTicker(c.config.Renew / 4)
	defer retry.Stop()
	for failed := false; ; {
		lease, err := c.config.Lease.Take(ctx)
		if err != nil && !failed && ctx.Err() == nil {
			c.config.Log.Warn("lease not read", "error", err)
		}
		if failed = err != nil; !failed {
			c.hold(lease)
		}
		if lease.Mine {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-retry.C:
		}
	}
}

// renew keeps the lease until ctx ends. When it cannot, it calls stop before
// another could take it.
func (c *Controller) renew(ctx context.Context, stop context.CancelCauseFunc) {
	c.mu.RLock()
	expiry := time.AfterFunc(time.Until(c.until), func() { stop(errLost) })
	c.mu.RUnlock()
	defer expiry.Stop()
	tick := time.NewTicker(c.config.Renew)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		lease, err := c.config.Lease.Take(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			c.config.Log.Warn("lease not renewed", "error", err)
		case lease.Mine:
			expiry.Reset(time.Until(lease.Until))
			c.hold(lease)
		default:
			c.hold(lease)
			stop(errLost)
			return
		}
	}
}

// hold notes whose the lease is.
func (c *Controller) hold(lease psg.Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leader, c.until = lease.Holder, lease.Until
}

// giveUp gives the lease up, so that another need not wait for it to expire.
func (c *Controller) giveUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.config.Renew)
	defer cancel()
	if err := c.config.Lease.Give(ctx); err != nil {
		c.config.Log.Warn("lease not given up: it expires", "error", err)
	}
}
