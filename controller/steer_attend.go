package controller

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/psgrid/psg"
)

// maxAttended is how many jobs are attended to at a time: one for which the
// orchestrator takes long delays few others.
const maxAttended = 8

// attendAll attends to each job when it is due, and tells of moves that have ended.
func (c *Controller) attendAll(ctx context.Context, to Orchestrator) error {
	var attending errgroup.Group
	attending.SetLimit(maxAttended)
	defer func() { _ = attending.Wait() }() // none returns an error
	for {
		wait := time.NewTimer(c.steers.wait(time.Now()))
		select {
		case <-ctx.Done():
			wait.Stop()
			return ctx.Err()
		case <-c.steers.news:
		case <-wait.C:
		}
		wait.Stop()
		for _, job := range c.steers.due(time.Now()) {
			if release, held := c.steers.hold(job); held {
				attending.Go(func() error { defer release(); c.attendDue(ctx, job, to); return nil })
			} else {
				c.steers.again(job, time.Now().Add(startsLook))
			}
		}
		if err := c.finish(ctx, time.Now()); err != nil {
			return err
		}
	}
}

// attendDue attends to one job, which it holds.
func (c *Controller) attendDue(ctx context.Context, job psg.JobID, to Orchestrator) {
	err := c.attend(ctx, job, to)
	if ctx.Err() != nil {
		return
	}
	c.steers.done(job, time.Now(), err)
	if err != nil && !errors.Is(err, psg.ErrUnknown) {
		c.config.Log.Warn("job not steered", "namespace", job.Namespace, "job", job.Job, "error", err)
	}
}

// attend does for one job what is to be done now, or, while it must not be changed,
// a little later.
func (c *Controller) attend(ctx context.Context, job psg.JobID, to Orchestrator) error {
	err := c.act(ctx, job, to)
	if at, waits := c.steers.later(job, err, time.Now()); waits {
		c.steers.again(job, at)
		return nil
	}
	return err
}

// hold has a job, and the account of its moves, changed by nobody else until it is
// released, unless somebody changes it already: hints that were made out before
// another's would be written after them.
func (s *steers) hold(job psg.JobID) (release func(), held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[job] {
		return nil, false
	}
	s.held[job] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.held, job)
	}, true
}
