package controller

import (
	"context"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/psgrid/psg"
)

// Orchestrator carries out where work goes.
//
// Steer writes hints into a job and takes its hold off, in one change that is
// safe to repeat, and reports whether there was anything to write. It asks leads
// just before. With an error too, changed says that a change was made, or may have
// been. psg.ErrUnknown means that the job is gone or cannot be changed,
// psg.ErrBusy that it must not be changed now. Stop ends one allocation so that
// another is started in its place; psg.ErrUnavailable means that it may have been.
//
// Shifting says how far the shift that a job was registered with has come.
//
// Heal has a job looked at again of which fewer instances run than are wanted,
// unless the orchestrator is about to do so itself, and reports whether it did.
// Blocked lists what it could not place, and why.
type Orchestrator interface {
	Steer(ctx context.Context, s psg.Steering, leads func() error) (changed bool, err error)
	Stop(ctx context.Context, alloc psg.AllocID) error
	Shifting(ctx context.Context, job psg.JobID) (psg.ShiftState, error)
	Heal(ctx context.Context, job psg.JobID) (bool, error)
	Blocked(ctx context.Context) ([]psg.Blockage, error)
}

const (
	// settle is how long a job is left alone after its last news, so that one
	// change serves all of its instances.
	settle = 300 * time.Millisecond
	// settleWithin is how long news that does not end may put that off.
	settleWithin = 2 * time.Second
	// steerHold is how long room stays reserved for an allocation that is steered.
	steerHold     = 2 * time.Minute
	reserveWithin = 5 * time.Second
	// stopWithin is how long a stopped allocation may take to end before it is
	// stopped again: longer than a gate ever needs.
	stopWithin = 10 * time.Second
	// steerRetry is the first wait after a failure; it doubles up to stageEvery.
	steerRetry = time.Second
)

// Steer brings allocations that wait at the gate of a node that is not the
// planned one to where they are planned, and starts held jobs that have room:
// reserve, hint, stop. It heals jobs of which instances are missing for long. It
// acts on committed decisions only, checks that this controller leads before each
// thing it does, and runs until ctx ends: it is one of Config.Duties.
func (c *Controller) Steer(ctx context.Context, to Orchestrator) error {
	to = impatient{to, orchestratorWithin}
	c.steers.open(to)
	defer c.steers.close()
	c.noteAll(time.Now())
	if err := c.leftBehind(ctx, time.Now()); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.watchOver(ctx, to) })
	group.Go(func() error { return c.attendAll(ctx, to) })
	return group.Wait()
}

// watchOver looks now and then for what no news tells of.
func (c *Controller) watchOver(ctx context.Context, to Orchestrator) error {
	c.lookBlocked(ctx, to)
	watch := time.NewTicker(healEvery)
	defer watch.Stop()
	for missing := map[psg.JobID]int(nil); ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-watch.C:
		}
		missing = c.healMissing(ctx, missing, within(healFor), to)
		c.lookBlocked(ctx, to)
		if err := c.leftBehind(ctx, time.Now()); err != nil {
			return err
		}
	}
}

// noteAll looks for work that an earlier leader has left.
func (c *Controller) noteAll(now time.Time) {
	for _, status := range c.statuses() {
		c.noteAsk(status, now)
		if status.State == psg.Lost && status.Ask.Node != "" && now.Sub(status.Since) < lostLately {
			c.steers.lose(status.Ask.Workload.JobID(), status.Ask.Node, now)
		}
	}
	for _, w := range c.Snapshot().Workloads {
		if w.Held || w.Shifting {
			c.steers.note(w.ID.JobID(), now)
		}
	}
}

// noteAsk has the job of an ask attended to if its new state calls for it.
func (c *Controller) noteAsk(status *psg.AskStatus, now time.Time) {
	if status.State == psg.Granted && status.Ask.Alloc != "" {
		c.steers.landed(status.Placement.Node)
		c.steers.arrived(status.Ask.Workload.JobID(), status.Ask.At)
	}
	held := status.State == psg.Reserved && strings.HasPrefix(string(status.Ask.ID), heldPrefix)
	if status.State == psg.Elsewhere || held {
		c.steers.note(status.Ask.Workload.JobID(), now)
	}
}

func (c *Controller) act(ctx context.Context, job psg.JobID, to Orchestrator) error {
	workloads, asks := c.job(job)
	s, another := c.steers.keep(job, c.versionOf(job), resumed(workloads, asks, time.Now()))
	if another {
		c.resumeRecord(s, asks)
	}
	if s != nil {
		return c.settle(ctx, s, to)
	}
	if releasable(workloads, asks) {
		return c.release(ctx, job, workloads, asks, to)
	}
	if gone, since := c.steers.goneFrom(job); len(gone) > 0 {
		if err := c.unhint(ctx, job, gone, since, to); err != nil {
			return err
		}
	}
	all := slices.DeleteFunc(slices.Clone(asks), func(s psg.AskStatus) bool { return !stray(&s) })
	ending := c.steers.ending(job, time.Now())
	strays := slices.DeleteFunc(slices.Clone(all), func(s psg.AskStatus) bool { return ending[s.Ask.Alloc] })
	if len(strays) < len(all) {
		c.steers.again(job, time.Now().Add(stopWithin)) // for those that do not end
	}
	if len(strays) == 0 {
		return nil
	}
	return c.guide(ctx, job, strays, to)
}

// stray reports whether an allocation waits where it is not wanted.
func stray(s *psg.AskStatus) bool {
	return s.State == psg.Elsewhere && s.Ask.Alloc != "" && s.Refusal != nil && s.Refusal.Node != ""
}

// release starts a held job: the plan exists for all of it.
func (c *Controller) release(ctx context.Context, job psg.JobID, workloads []psg.Workload, asks []psg.AskStatus, to Orchestrator) error {
	if err := c.mayRegister(job)(); err != nil {
		return err
	}
	if err := c.spend(job, time.Now()); err != nil {
		return err
	}
	changed, err := c.steer(ctx, psg.Steering{Job: job, Hints: hints(workloads, asks), Release: true}, to)
	if err != nil {
		if !changed {
			c.steers.refund(job)
		}
		return err
	}
	if !changed {
		c.steers.refund(job)
		return c.steered(ctx, asks)
	}
	c.steers.again(job, time.Now().Add(stopWithin)) // for what waits in its other groups
	c.config.Log.Info("released", "namespace", job.Namespace, "job", job.Job)
	return c.steered(ctx, asks)
}

// steered records that the orchestrator knows of the reservations of a job.
func (c *Controller) steered(ctx context.Context, asks []psg.AskStatus) error {
	var deltas []psg.Delta
	now := time.Now()
	for _, status := range asks {
		if status.State == psg.Reserved && status.Ask.Alloc == "" && !status.Placement.Waits() {
			deltas = append(deltas, psg.Moved{Ask: status.Ask.ID, State: psg.Steered, At: now})
		}
	}
	return c.Report(ctx, deltas)
}

// hints says, for each group of a job that PSG places, on which nodes its
// instances have room: those that run and those that are planned.
func hints(workloads []psg.Workload, asks []psg.AskStatus) map[string]psg.Hint {
	all := map[string]psg.Hint{}
	for i := range workloads {
		w := &workloads[i]
		hint := psg.Hint{}
		for _, status := range asks {
			if status.Ask.Workload == w.ID && status.Placement != nil && !status.State.Leaves() {
				hint[status.Placement.Node]++
			}
		}
		if len(hint) > 0 && startsByAsking(w) {
			all[w.ID.Group] = hint
		}
	}
	return all
}
