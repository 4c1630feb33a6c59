package controller

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/ledger"
)

const (
	// goneWithin is how long the hints to a lost node stay, for what ran there to
	// be placed anew first: one change then serves all; goneLook is between two
	// looks whether it is.
	goneWithin = time.Minute
	goneLook   = 2 * time.Second
	// lostLately is how long ago a loss may be for a new leader to look whether the
	// one before it took the hints back.
	lostLately = 10 * time.Minute
	goneAgain  = 5 * time.Second // until the next try, when the job must not be changed
)

// noteLoss has the hints of a job looked at of which an instance was lost with
// its node, and forgets how a node that is gone took what was steered to it.
func (c *Controller) noteLoss(d psg.Delta, now time.Time) {
	if gone, leaves := d.(psg.NodeGone); leaves {
		c.steers.landed(gone.Node)
	}
	freed, ends := d.(psg.Freed)
	if !ends || freed.State != psg.Lost {
		return
	}
	if status := c.state.Ask(freed.Ask); status != nil && status.Ask.Node != "" {
		c.steers.lose(status.Ask.Workload.JobID(), status.Ask.Node, now)
	}
}

// lose has a job looked at that may be hinted to a node in vain.
func (s *steers) lose(job psg.JobID, node psg.NodeID, now time.Time) {
	s.mu.Lock()
	known := s.jobs[job] != nil && slices.Contains(s.jobs[job].gone, node)
	s.mu.Unlock()
	if known {
		return
	}
	s.note(job, now)
	s.mu.Lock()
	defer s.mu.Unlock()
	if noted := s.jobs[job]; noted != nil {
		noted.gone, noted.lost = append(noted.gone, node), now
	}
}

// goneFrom are the lost nodes that a job may still be hinted to, and since when.
func (s *steers) goneFrom(job psg.JobID) ([]psg.NodeID, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if noted := s.jobs[job]; noted != nil {
		return slices.Clone(noted.gone), noted.lost
	}
	return nil, time.Time{}
}

// forgetGone forgets nodes that a job is no longer hinted to. Another may have been
// lost meanwhile.
func (s *steers) forgetGone(job psg.JobID, nodes []psg.NodeID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if noted := s.jobs[job]; noted != nil {
		noted.gone = slices.DeleteFunc(noted.gone, func(node psg.NodeID) bool { return slices.Contains(nodes, node) })
	}
}

// unhint takes the hints to lost nodes off a job, once all of it is placed
// elsewhere or that takes too long.
func (c *Controller) unhint(ctx context.Context, job psg.JobID, gone []psg.NodeID, since time.Time, to Orchestrator) error {
	now := time.Now()
	if c.lacking(job) && now.Sub(since) < goneWithin {
		c.steers.again(job, now.Add(goneLook))
		return nil
	}
	workloads, asks := c.job(job)
	wanted := hints(workloads, asks)
	for i := range workloads {
		if id := workloads[i].ID; wanted[id.Group] == nil && startsByAsking(&workloads[i]) {
			wanted[id.Group] = psg.Hint{} // what has no place is hinted nowhere
		}
	}
	changed, err := c.steer(ctx, psg.Steering{Job: job, Hints: wanted, Gone: gone}, to)
	switch {
	case errors.Is(err, psg.ErrBusy): // it is no hurry, and must keep nothing that is from being done
		c.steers.again(job, now.Add(goneAgain))
		c.config.Log.Debug("still hinted to nodes in vain", "namespace", job.Namespace, "job", job.Job, "nodes", gone, "reason", err)
		return nil
	case err != nil && !errors.Is(err, psg.ErrUnknown): // a job that is gone is hinted nowhere
		return err
	}
	c.steers.forgetGone(job, gone)
	if changed {
		c.config.Log.Info("no longer hinted to nodes in vain", "namespace", job.Namespace, "job", job.Job, "nodes", gone)
	}
	return nil
}

// lacking reports whether an instance of a job has no place.
func (c *Controller) lacking(job psg.JobID) (lacking bool) {
	c.view(func(s *ledger.State) {
		workloads, asks := s.Job(job)
		for i := range workloads {
			placed := 0
			for _, status := range asks {
				if status.Ask.Workload == workloads[i].ID && status.Placement != nil && status.State != psg.Ending {
					placed++
				}
			}
			lacking = lacking || startsByAsking(&workloads[i]) && placed < workloads[i].Count
		}
	})
	return lacking
}
