package controller

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/psgrid/psg"
)

const (
	// startsWithin is how long a granted allocation may take until Nomad's server
	// knows that it runs; one that takes longer has a start that shows there.
	startsWithin = 15 * time.Second
	// startsLook is how soon it is looked again whether it runs.
	startsLook = 250 * time.Millisecond
	// startsPatience is how long a change of a job waits in all for allocations that
	// start one after another, such as when each fails soon.
	startsPatience = 45 * time.Second
)

// errStarting is why a job must not be changed just now.
var errStarting = fmt.Errorf("an allocation of the job is just starting: %w", psg.ErrBusy)

// steer has the orchestrator told of a job, and counts what that cost.
func (c *Controller) steer(ctx context.Context, s psg.Steering, to Orchestrator) (changed bool, err error) {
	changed, err = to.Steer(ctx, s, c.mayRegister(s.Job))
	c.steers.wrote(s.Job, changed)
	return changed, err
}

// mayRegister is asked just before Nomad is given a new version of a job, and before
// anything is reserved for one: whether this controller leads, and no allocation of
// the job is just starting. One of which allocations go on starting is changed all
// the same: the rest of it would wait for good.
//
// A version that changes hints alone is updated in place, and a client judges the
// health of what it updates by the task states that the server sent with it. Has a
// task started since the server heard of it last, nothing tells the client, and
// the deployment neither succeeds nor fails until its deadline (seen on Nomad 2.0).
// A gate that is granted between this and the registration may still meet it.
func (c *Controller) mayRegister(job psg.JobID) func() error {
	return func() error {
		if err := c.mustLead(); err != nil {
			return err
		}
		now := time.Now()
		_, asks := c.job(job)
		waits, enough := c.steers.awaits(job, starting(asks, now), now)
		if enough {
			c.config.Log.Warn("allocations of the job go on starting: it is changed all the same",
				"namespace", job.Namespace, "job", job.Job, "waited", startsPatience)
		}
		if waits {
			return fmt.Errorf("change job %q: %w", job.Job, errStarting)
		}
		return nil
	}
}

// awaits reports whether a change of a job waits for what starts, or, once, that it
// has for long enough.
func (s *steers) awaits(id psg.JobID, starts bool, now time.Time) (waits, enough bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	job := s.jobs[id]
	if !starts {
		if job != nil {
			job.waits, job.asked = time.Time{}, time.Time{}
		}
		return false, false
	}
	if job == nil {
		job = new(steerJob)
		s.jobs[id] = job
	}
	if job.waits.IsZero() || job.forgotten(now) {
		job.waits, job.patient = now, true
	}
	job.asked = now
	waits = now.Sub(job.waits) < startsPatience
	enough = !waits && job.patient
	job.patient = job.patient && waits
	return waits, enough
}

// forgotten reports whether nobody has asked for long whether the job may be changed.
func (j *steerJob) forgotten(now time.Time) bool { return now.Sub(j.asked) > stageEvery }

// wrote counts a job version, after which the next change has its own patience.
func (s *steers) wrote(id psg.JobID, changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !changed {
		return
	}
	s.figures.Versions++
	if job := s.jobs[id]; job != nil {
		job.waits, job.asked = time.Time{}, time.Time{}
	}
}

// starting reports whether an allocation was granted of which Nomad has not told
// yet that it runs.
func starting(asks []psg.AskStatus, now time.Time) bool {
	return slices.ContainsFunc(asks, func(s psg.AskStatus) bool {
		return s.State == psg.Granted && s.Ask.Alloc != "" && now.Sub(s.Placement.Since) < startsWithin
	})
}
