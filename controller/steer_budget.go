package controller

import (
	"errors"
	"fmt"
	"time"

	"github.com/psgrid/psg"
)

const (
	// maxStages is how many changes of one job may follow each other; then there
	// is one each stageEvery, so that nothing loops, whoever fights PSG over a job.
	maxStages  = 3
	stageEvery = time.Minute
)

// errSpent is why a job is not changed just now, by psg.ErrBusy to who asks.
var errSpent = fmt.Errorf("%d changes of the job followed each other, one more each %v: %w", maxStages, stageEvery, psg.ErrBusy)

// budget is how often a job may still be changed. The zero budget is full.
type budget struct {
	full time.Time // when it is again, unless more is spent
	told time.Time // until when it has been said that nothing is left
}

// next is when one more change may be made: not after now if at once.
func (b *budget) next() time.Time { return b.full.Add(-(maxStages - 1) * stageEvery) }

// spend takes one change, unless none is left.
func (b *budget) spend(now time.Time) bool {
	if b.next().After(now) {
		return false
	}
	if b.full.Before(now) {
		b.full = now
	}
	b.full = b.full.Add(stageEvery)
	return true
}

// refund gives one change back.
func (b *budget) refund() { b.full = b.full.Add(-stageEvery) }

// spend takes one of the changes that a job has left: errSpent if it has none, of
// which it is said once until when.
func (c *Controller) spend(job psg.JobID, now time.Time) error {
	spent, next, tell := c.steers.spend(job, now)
	if spent {
		return nil
	}
	if tell {
		c.config.Log.Warn("changes of the job follow each other too closely: the next has to wait",
			"namespace", job.Namespace, "job", job.Job, "until", next)
	}
	return fmt.Errorf("change job %q: %w", job.Job, errSpent)
}

func (s *steers) spend(id psg.JobID, now time.Time) (spent bool, next time.Time, tell bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	job := s.jobs[id]
	if job == nil || job.budget.spend(now) {
		return job != nil, now, false
	}
	next = job.budget.next()
	tell = job.budget.told.Before(next)
	job.budget.told = next
	return false, next, tell
}

// refund takes back what was spent on a change that was not made.
func (s *steers) refund(id psg.JobID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if job := s.jobs[id]; job != nil {
		job.budget.refund()
	}
}

// mayChangeAt is when a job may be changed once more.
func (s *steers) mayChangeAt(id psg.JobID) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if job := s.jobs[id]; job != nil {
		return job.budget.next()
	}
	return time.Time{}
}

// noteEnd forgets how often a job was changed that is wanted no more, whatever of it
// has yet to end: another may be registered by its name.
func (c *Controller) noteEnd(d psg.Delta) {
	gone, ends := d.(psg.WorkloadGone)
	if !ends || c.state.Wanted(gone.Workload.JobID()) {
		return
	}
	id := gone.Workload.JobID()
	c.steers.mu.Lock()
	defer c.steers.mu.Unlock()
	if job := c.steers.jobs[id]; job != nil {
		job.budget = budget{}
	}
}

// later is when a job that must not be changed now is looked at again; none for
// any other error.
func (s *steers) later(id psg.JobID, err error, now time.Time) (at time.Time, waits bool) {
	switch {
	case errors.Is(err, errStarting):
		return now.Add(startsLook), true
	case errors.Is(err, errSpent):
		return s.mayChangeAt(id), true
	}
	return time.Time{}, false
}
