package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/ledger"
)

// replanEvery is how often a stray may be planned on another node although it could
// still go where it was planned: by scores, which change with every node's load.
const replanEvery = 10 * time.Second

// wanders reports whether a stray that is planned on another node than before is
// left as it is for now. In next it notes when it last was not.
func (c *Controller) wanders(status *psg.AskStatus, refusal *psg.Refusal, next map[psg.RequestID]time.Time, now time.Time) bool {
	at, replanned := c.replanned[refusal.Ask]
	if replanned {
		next[refusal.Ask] = at
	}
	known := status.Refusal
	if known == nil || status.State != psg.Elsewhere || refusal.State != psg.Elsewhere || known.Node == refusal.Node || known.Summary != refusal.Summary {
		return false
	}
	node := c.state.Node(known.Node)
	_, shunned := c.steers.shunned(now)[known.Node]
	if replanned && now.Sub(at) < replanEvery && node != nil && node.Ready && !shunned {
		return true
	}
	next[refusal.Ask] = now
	return false
}

// guide reserves where the strays are planned, hints the job there, and
// stops those that still are strays, for Nomad to start others in their place. Where
// the job cannot be hinted it does so all the same, ever more rarely.
func (c *Controller) guide(ctx context.Context, job psg.JobID, strays []psg.AskStatus, to Orchestrator) error {
	if wait := c.steers.blindness(job).wait(c.versionOf(job), time.Now()); wait > 0 {
		c.steers.again(job, time.Now().Add(wait))
		return nil
	}
	if err := c.mayRegister(job)(); err != nil {
		return err
	}
	if err := c.spend(job, time.Now()); err != nil {
		return err
	}
	if c.shuns(job, strays) {
		c.steers.refund(job)
		c.steers.again(job, time.Now().Add(settle))
		return nil
	}
	planned, err := c.reserveForAll(ctx, job, strays)
	if err != nil {
		c.steers.refund(job)
		return err
	}
	changed, blinded, err := c.hint(ctx, job, to)
	if err != nil {
		if !changed {
			c.steers.refund(job)
		}
		return err
	}
	stopped, err := c.stopStrays(ctx, job, strays, planned, to)
	c.sent(job, stopped, blinded)
	if !changed && len(stopped) == 0 {
		c.steers.refund(job)
	}
	if err != nil {
		return err
	}
	c.steers.again(job, time.Now().Add(stopWithin)) // for those that are stopped in vain, or had no room just now
	c.config.Log.Info("steered", "namespace", job.Namespace, "job", job.Job, "stopped", len(stopped), "new_version", changed)
	return nil
}

// hint tells where the instances of a job are wanted. blinded is why it cannot be
// told: what is stopped may still come out there.
func (c *Controller) hint(ctx context.Context, job psg.JobID, to Orchestrator) (changed bool, blinded, err error) {
	workloads, asks := c.job(job)
	var waiting []psg.AllocID
	for i := range asks {
		if stray(&asks[i]) {
			waiting = append(waiting, asks[i].Ask.Alloc)
		}
	}
	changed, err = c.steer(ctx, psg.Steering{Job: job, Hints: hints(workloads, asks), Supersede: true, Waiting: waiting}, to)
	if errors.Is(err, psg.ErrUnknown) {
		blinded, err = err, nil
	}
	if err != nil {
		return changed, nil, err
	}
	return changed, blinded, c.steered(ctx, asks)
}

// sent notes which nodes those who were stopped are to come out on. That they do not
// is no fault of the node's where Nomad could not be told.
func (c *Controller) sent(job psg.JobID, to []psg.NodeID, blinded error) {
	now := time.Now()
	c.steers.stops(len(to))
	switch {
	case blinded == nil:
		c.steers.sees(job, nil)
		for _, node := range to {
			c.steers.sentTo(job, node, now)
		}
	case len(to) > 0:
		c.steers.sees(job, c.steers.blindness(job).after(blinded, c.versionOf(job), now))
	}
}

// shuns notes which nodes the strays have missed, and reports whether one of them
// is shunned for it from now on: then the strays are planned anew.
func (c *Controller) shuns(job psg.JobID, strays []psg.AskStatus) bool {
	for i := range strays {
		if node := strays[i].Refusal.Node; c.steers.missed(job, node, time.Now()) {
			c.config.Log.Warn("nothing is planned on a node for a while: what is steered there comes out elsewhere", "node", node)
			c.Wake()
			return true
		}
	}
	return false
}

// reserveForAll holds room for each of a job's strays, and says on which node, for
// those for which it could.
func (c *Controller) reserveForAll(ctx context.Context, job psg.JobID, strays []psg.AskStatus) (map[psg.RequestID]psg.NodeID, error) {
	if err := c.giveUpRooms(ctx, job); err != nil {
		return nil, err
	}
	planned := map[psg.RequestID]psg.NodeID{}
	for i := range strays {
		node, held, err := c.reserveFor(ctx, &strays[i])
		if err != nil {
			return nil, err
		}
		if held {
			planned[strays[i].Ask.ID] = node
		}
	}
	return planned, nil
}

// stopStrays stops those for which room is held and that were not accepted where
// they are meanwhile, and says where that is for each of them.
func (c *Controller) stopStrays(ctx context.Context, job psg.JobID, strays []psg.AskStatus, planned map[psg.RequestID]psg.NodeID, to Orchestrator) (stopped []psg.NodeID, err error) {
	for _, was := range strays {
		now, _ := c.Ask(was.Ask.ID)
		node, held := planned[was.Ask.ID]
		if !held || !stray(&now) {
			continue
		}
		if err := c.mustLead(); err != nil {
			return stopped, err
		}
		if err := to.Stop(ctx, was.Ask.Alloc); err != nil {
			return stopped, err
		}
		c.steers.stopped(job, was.Ask.Alloc, time.Now())
		stopped = append(stopped, node)
	}
	return stopped, nil
}

// stopped notes that a stray of a job was stopped: for a while it is still there.
func (s *steers) stopped(id psg.JobID, alloc psg.AllocID, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if job := s.jobs[id]; job != nil {
		if job.stopped == nil {
			job.stopped = map[psg.AllocID]time.Time{}
		}
		job.stopped[alloc] = now
	}
}

// ending are the strays of a job that were stopped so lately that they may yet end:
// they are not stopped again, and their node has not missed their successors.
func (s *steers) ending(id psg.JobID, now time.Time) map[psg.AllocID]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	job, ending := s.jobs[id], map[psg.AllocID]bool{}
	if job == nil {
		return ending
	}
	maps.DeleteFunc(job.stopped, func(_ psg.AllocID, at time.Time) bool { return now.Sub(at) >= stopWithin })
	for alloc := range job.stopped {
		ending[alloc] = true
	}
	return ending
}

// giveUpRooms frees what steering holds for a job where nothing is to start now:
// the job would be hinted there all the same.
func (c *Controller) giveUpRooms(ctx context.Context, job psg.JobID) error {
	var freed []psg.Delta
	var ids []psg.RequestID
	now := time.Now()
	shunned := c.steers.shunned(now)
	c.view(func(s *ledger.State) {
		_, asks := s.Job(job)
		for _, status := range asks {
			if status.Placement == nil || status.Placement.Waits() || !hasPrefix(status.Ask.ID, steerPrefix) {
				continue
			}
			node := s.Node(status.Placement.Node)
			if _, shuns := shunned[status.Placement.Node]; shuns || node == nil || !node.Ready {
				ids = append(ids, status.Ask.ID)
				freed = append(freed, psg.Freed{Ask: status.Ask.ID, State: psg.Released, Reason: "nothing is to start on its node now", At: now})
			}
		}
	})
	if len(freed) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, reserveWithin)
	defer cancel()
	if err := c.end(ctx, freed, ids); err != nil {
		return fmt.Errorf("free room where nothing is to start: %w", err)
	}
	return nil
}

// reserveFor holds the room where a stray is planned, unless some is held for it
// already, and reports where, and whether it could: room that another took meanwhile
// is planned anew by the next cycle.
func (c *Controller) reserveFor(ctx context.Context, s *psg.AskStatus) (node psg.NodeID, held bool, err error) {
	_, asks := c.job(s.Ask.Workload.JobID())
	for _, other := range asks {
		if reservedFor(other.Ask.ID, steerPrefix, s.Ask.ID) && other.Placement != nil && !other.Placement.Waits() {
			return other.Placement.Node, true, nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, reserveWithin)
	defer cancel()
	rooms, refused, err := c.reserve(ctx, psg.Reservation{
		ID: reservationID(steerPrefix, s.Ask.ID), Workload: s.Ask.Workload,
		Count: 1, Node: s.Refusal.Node, Hold: steerHold,
	})
	if err != nil {
		return "", false, fmt.Errorf("reserve room on %s: %w", s.Refusal.Node, err)
	}
	return s.Refusal.Node, len(refused) == 0 && len(rooms) > 0, nil
}
