package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/placement"
)

// Run stands by and leads, by turns, until ctx ends. It returns an error only
// when the log cannot be folded, or a duty fails: no other controller would
// fare better.
func (c *Controller) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		err := c.standBy(ctx)
		if err == nil {
			err = c.lead(ctx)
		}
		if err == nil || ctx.Err() != nil {
			continue
		}
		if !passing(err) {
			return err
		}
		c.config.Log.Warn("stands by", "reason", err)
		select {
		case <-ctx.Done():
		case <-time.After(c.config.Renew):
		}
	}
	return nil
}

// passing reports whether an error is one that standing by and leading anew can
// mend.
func passing(err error) bool {
	return errors.Is(err, errLost) || errors.Is(err, psg.ErrNotLeader) || errors.Is(err, psg.ErrUnavailable)
}

// standBy follows the ledger, for readers and to know it when the time comes,
// and returns nil once the lease is this controller's.
func (c *Controller) standBy(ctx context.Context) error {
	if err := c.restore(ctx); err != nil {
		return err
	}
	following, stop := context.WithCancel(ctx)
	group, following := errgroup.WithContext(following)
	group.Go(func() error { return c.log.Follow(following, c.state.Sequence(), c.applied) })
	err := c.awaitLease(following)
	stop()
	if followed := group.Wait(); err != nil && ctx.Err() == nil {
		c.restored = false // whatever went wrong may be in the state
		return fmt.Errorf("follow ledger: %w (%w)", followed, psg.ErrUnavailable)
	}
	return err
}

// applied folds a record that another leader committed. A state that a part of
// one is in is not led from, even if the lease comes at that moment.
func (c *Controller) applied(r psg.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.state.Apply(r)
	c.restored = c.restored && err == nil
	return err
}

// lead opens an epoch and cycles, at once when there is news and at least every
// Period, for as long as the lease is renewed.
func (c *Controller) lead(ctx context.Context) error {
	leading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	renewing := make(chan struct{})
	go func() {
		defer close(renewing)
		c.renew(leading, stop)
	}()
	defer func() {
		c.resign()
		stop(nil)
		<-renewing
		c.giveUp(ctx)
	}()
	err := c.open(leading)
	if err == nil {
		group, acting := errgroup.WithContext(leading)
		group.Go(func() error { return c.config.Duties(acting) })
		group.Go(func() error { return c.saveImages(acting) })
		group.Go(func() error { return c.cycles(acting) })
		err = group.Wait()
	}
	if cause := context.Cause(leading); cause != nil && ctx.Err() == nil {
		return cause
	}
	return err
}

// open opens an epoch. While the log cannot be asked it tries again as long as it
// holds the lease: the log may find its leader a little after the lease does.
func (c *Controller) open(ctx context.Context) error {
	c.deadlines = newDeadlines(time.Now())
	for failed := false; ; {
		err := c.Lead(ctx, time.Now())
		if !errors.Is(err, psg.ErrUnavailable) || ctx.Err() != nil {
			return err
		}
		if !failed {
			c.config.Log.Warn("cannot lead yet", "error", err)
		}
		failed = true
		select {
		case <-ctx.Done():
			return err
		case <-time.After(c.config.Renew / 4):
		}
	}
}

func (c *Controller) cycles(ctx context.Context) error {
	tick := time.NewTicker(c.config.Period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		case <-c.inbox.news:
		}
		if err := c.Cycle(ctx, time.Now()); err != nil {
			return err
		}
		if c.dirty { // it left something for the next
			signal(c.inbox.news)
		}
		c.offerImage()
	}
}

// resign ends the lead: whoever waits is told, and what waits for a cycle is
// forgotten, since watchers list the world anew and askers ask again.
func (c *Controller) resign() {
	c.mu.Lock()
	c.leading = false
	c.mu.Unlock()
	c.polls.wakeAll()
	c.inbox.close(c.mustLead())
}

// Lead reads the log to its end, opens the next epoch in it and builds the
// engine. When it returns nil, nobody of an older epoch can append any more.
func (c *Controller) Lead(ctx context.Context, now time.Time) error {
	if err := c.restore(ctx); err != nil {
		return err
	}
	epoch := c.state.Epoch() + 1
	record := psg.Record{
		Sequence: c.state.Sequence() + 1, Epoch: epoch, At: now,
		Deltas: []psg.Delta{psg.Led{Epoch: epoch, Leader: c.config.Name}},
	}
	if err := c.log.Append(ctx, record); err != nil {
		return fmt.Errorf("open epoch %d: %w", epoch, err)
	}
	if err := c.applied(record); err != nil {
		return err
	}
	view := c.freeze(now)
	engine := engineOf(view)
	c.recountAll(view)
	c.mu.Lock()
	c.leading = true
	c.mu.Unlock()
	c.inbox.open()
	c.engine, c.dirty, c.restored = engine, true, false
	if c.deadlines.of == nil {
		c.deadlines = newDeadlines(now)
	}
	c.config.Log.Info("leading", "epoch", epoch, "record", record.Sequence)
	return nil
}

// engineOf is a placement engine that knows what a snapshot shows.
func engineOf(view *psg.Snapshot) *placement.Engine {
	engine := placement.New(placement.Config{})
	for _, d := range view.Deltas() {
		engine.Apply(d)
	}
	return engine
}

// leads reports whether this controller leads and its lease is good right now.
// Both of the process's clocks are asked: one stands still while a machine is
// suspended, the other may be set.
func (c *Controller) leads() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	now := time.Now()
	return c.leading && (c.until.IsZero() || now.Before(c.until) && now.Round(0).Before(c.until.Round(0)))
}

func (c *Controller) mustLead() error {
	if c.leads() {
		return nil
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	return &psg.NotLeaderError{Controller: c.config.Name, Leader: c.leader}
}

// Leader returns who is known to hold the lease; zero if nobody is.
func (c *Controller) Leader() psg.Leader {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.leader
}
