package controller

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/ledger"
)

const (
	// healEvery is how often workloads are looked through for missing instances, and
	// healFor how long jobs may be healed then: all else that is steered waits for it.
	healEvery = 30 * time.Second
	healFor   = 2 * time.Second
)

// healMissing counts how often in a row instances of a job were missing, and has
// the job healed the second time, then ever more rarely: a job whose own policy
// lets it fail is not evaluated for ever. Those come first that were healed least,
// and those for which there is no time at the next look.
func (c *Controller) healMissing(ctx context.Context, before map[psg.JobID]int, spent func() bool, to Orchestrator) map[psg.JobID]int {
	now := map[psg.JobID]int{}
	jobs := c.missing()
	slices.SortStableFunc(jobs, func(a, b psg.JobID) int { return cmp.Compare(before[a], before[b]) })
	for _, job := range jobs {
		now[job] = before[job] + 1
		if times := now[job]; times < 2 || times&(times-1) != 0 || c.mustLead() != nil {
			continue
		}
		if spent() {
			now[job] = before[job]
			continue
		}
		healed, err := to.Heal(ctx, job)
		switch {
		case err != nil:
			c.config.Log.Warn("job not healed", "namespace", job.Namespace, "job", job.Job, "error", err)
		case healed:
			c.config.Log.Warn("instances were missing, the job is evaluated again", "namespace", job.Namespace, "job", job.Job)
		}
	}
	return now
}

// missing are the jobs of which fewer instances are known than are wanted, by ID:
// all of them services that PSG places and that are not held.
func (c *Controller) missing() (jobs []psg.JobID) {
	c.view(func(s *ledger.State) {
		live := s.Live()
		for _, w := range s.Workloads() {
			if w.Type == psg.Service && w.Managed() && !w.Held && live[w.ID] < w.Count {
				jobs = append(jobs, w.ID.JobID())
			}
		}
	})
	return slices.Compact(jobs) // workloads come by ID
}
