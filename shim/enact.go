package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

// Enactor carries out in Nomad what the controller has decided about where. Its
// client's token must be allowed to read and submit jobs, and to stop
// allocations, in every namespace that PSG places.
type Enactor struct{ client *api.Client }

// NewEnactor returns an Enactor.
func NewEnactor(client *api.Client) *Enactor { return &Enactor{client} }

// maxConflicts bounds how often a registration is tried again because somebody
// else changed the job in between.
const maxConflicts = 5

// Steer writes hints into a job, and takes its hold off, unless all of it is so
// already, in one job version that keeps the user's source. It reports whether
// it wrote one, or may have, whatever failed then. leads is asked just before: an
// error of it stops everything.
//
// A job that is gone, stopped, a child that Nomad's API cannot change, or a batch
// job of which an instance has completed, which Nomad would run again under a new
// version, is psg.ErrUnknown; one that must not be changed now, such as while a
// deployment runs, is psg.ErrBusy.
func (e *Enactor) Steer(ctx context.Context, s psg.Steering, leads func() error) (changed bool, err error) {
	for range maxConflicts {
		changed, err = e.steerOnce(ctx, s, leads)
		if err == nil || !strings.Contains(err.Error(), api.RegisterEnforceIndexErrPrefix) {
			return changed, err
		}
	}
	return false, fmt.Errorf("steer job %q: it changes all the time: %w", s.Job.Job, psg.ErrBusy)
}

func (e *Enactor) steerOnce(ctx context.Context, s psg.Steering, leads func() error) (bool, error) {
	d, err := e.fetch(ctx, s.Job)
	if err != nil {
		return false, err
	}
	if err := changeable(d.job); err != nil {
		return false, err
	}
	if len(s.Gone) > 0 && !hintsTo(d.job, s.Gone) {
		return false, nil
	}
	wanted := Shift(Steer(d.job, s.Hints), s.Shifts)
	if s.Release {
		wanted = unheld(wanted)
	}
	before := d.job
	if err := d.set(wanted); err != nil {
		return false, err
	}
	if same(before, wanted) {
		return false, nil
	}
	if err := e.mayRegister(ctx, s, before); err != nil {
		return false, err
	}
	submission, err := e.submission(ctx, s.Job, before)
	if err != nil {
		return false, err
	}
	if err := leads(); err != nil {
		return false, err
	}
	return e.register(ctx, s.Job, d, submission)
}

// fetch reads a job as JSON, so that what this client does not know is kept.
func (e *Enactor) fetch(ctx context.Context, id psg.JobID) (*draft, error) {
	raw, err := requestJob(ctx, e.client, id)
	if err != nil {
		return nil, err
	}
	return newDraft(raw)
}

// changeable reports why a job cannot be registered again. Nomad's HTTP API has
// no place for what ties a dispatched or periodic child to its parent.
func changeable(job *api.Job) error {
	switch {
	case job.Stop != nil && *job.Stop:
		return fmt.Errorf("job %q is stopped: %w", text(job.ID), psg.ErrUnknown)
	case job.Dispatched || text(job.ParentID) != "":
		return fmt.Errorf("job %q is a child of %q, which Nomad's API cannot change: %w", text(job.ID), text(job.ParentID), psg.ErrUnknown)
	}
	return nil
}

// same reports whether two forms of one job say the same.
func same(a, b *api.Job) bool {
	first, err := json.Marshal(a)
	if err != nil {
		return false
	}
	second, err := json.Marshal(b)
	return err == nil && string(first) == string(second)
}

// wouldRerun reports whether a new version of a batch job would run again what
// has completed.
func (e *Enactor) wouldRerun(ctx context.Context, id psg.JobID, job *api.Job) (bool, error) {
	if text(job.Type) != api.JobTypeBatch {
		return false, nil
	}
	allocs, _, err := e.client.Jobs().Allocations(id.Job, false, query(ctx, id.Namespace))
	if err != nil {
		return false, fmt.Errorf("read allocations of job %q: %w: %w", id.Job, psg.ErrUnavailable, err)
	}
	return slices.ContainsFunc(allocs, func(a *api.AllocationListStub) bool {
		return a.ClientStatus == api.AllocClientStatusComplete && a.DesiredStatus == api.AllocDesiredStatusRun
	}), nil
}

// submission is the user's source of the job's version, nil if Nomad keeps none.
func (e *Enactor) submission(ctx context.Context, id psg.JobID, job *api.Job) (*api.JobSubmission, error) {
	if job.Version == nil {
		return nil, nil
	}
	found, _, err := e.client.Jobs().Submission(id.Job, int(*job.Version), query(ctx, id.Namespace))
	switch {
	case err != nil && notFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read source of job %q: %w: %w", id.Job, psg.ErrUnavailable, err)
	}
	return found, nil
}

// register reports whether Nomad has, or may have, the new version: not when it has
// answered that it does not.
func (e *Enactor) register(ctx context.Context, id psg.JobID, d *draft, submission *api.JobSubmission) (written bool, err error) {
	delete(d.raw, "VersionTag") // names the version it was put on
	request := map[string]any{"Job": d.raw, "EnforceIndex": true, "JobModifyIndex": d.job.JobModifyIndex}
	if submission != nil {
		request["Submission"] = submission
	}
	var answer api.JobRegisterResponse
	write := (&api.WriteOptions{Namespace: id.Namespace}).WithContext(ctx)
	if _, err := e.client.Raw().Write("/v1/jobs", request, &answer, write); err != nil {
		return !refused(err), fmt.Errorf("register job %q: %w", id.Job, err)
	}
	return true, e.evaluated(ctx, id, answer.EvalID)
}

// evaluateWithin bounds the wait for an evaluation. Behind a long queue of them
// the wait ends without it, and what is then stopped may have to be again.
const evaluateWithin = 5 * time.Second

// evaluated waits until Nomad has carried out an evaluation. An allocation that
// is stopped before the evaluation has updated it in place goes on running: the
// update, made from an older state of it, undoes the stop.
func (e *Enactor) evaluated(ctx context.Context, id psg.JobID, evaluation string) error {
	if evaluation == "" {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, evaluateWithin)
	defer cancel()
	asked := query(bounded, id.Namespace)
	for bounded.Err() == nil {
		found, meta, err := e.client.Evaluations().Info(evaluation, asked)
		switch {
		case err != nil && notFound(err), err == nil && found.Status != api.EvalStatusPending:
			return nil
		case err != nil && bounded.Err() == nil:
			return fmt.Errorf("read evaluation of job %q: %w: %w", id.Job, psg.ErrUnavailable, err)
		case err == nil:
			asked.WaitIndex, asked.WaitTime = meta.LastIndex, time.Second
		}
	}
	return ctx.Err()
}

// refused reports whether Nomad has answered that it does not do what it was asked
// to. One of its servers may have lost the lead, or another's answer, after the
// request was written.
func refused(err error) bool {
	var answer api.UnexpectedResponseError
	if !errors.As(err, &answer) || !answer.HasStatusCode() {
		return false
	}
	unsure := []string{"leadership lost", "while committing log", "EOF", "connection reset", "broken pipe", "timeout"}
	return answer.StatusCode() < 500 || !slices.ContainsFunc(unsure, func(text string) bool { return strings.Contains(answer.Body(), text) })
}

// Stop stops one allocation, in whose place Nomad starts another. One that is
// gone already is stopped; one that may have been is psg.ErrUnavailable.
func (e *Enactor) Stop(ctx context.Context, alloc psg.AllocID) error {
	_, err := e.client.Allocations().Stop(&api.Allocation{ID: string(alloc)}, query(ctx, api.AllNamespacesNamespace))
	var answer api.UnexpectedResponseError
	switch {
	case err == nil, errors.As(err, &answer) && (answer.StatusCode() == 404 || strings.Contains(answer.Body(), "alloc not found")):
		return nil
	case !refused(err):
		return fmt.Errorf("stop allocation %s: %w: %w", alloc, psg.ErrUnavailable, err)
	}
	return fmt.Errorf("stop allocation %s: %w", alloc, err)
}

// unheld returns the job without the hold constraint, at whichever level it
// stands, and without changing the job itself.
func unheld(job *api.Job) *api.Job {
	out := *job
	out.Constraints = released(job.Constraints)
	out.TaskGroups = slices.Clone(job.TaskGroups)
	for i, g := range out.TaskGroups {
		if g == nil {
			continue
		}
		group := *g
		group.Constraints = released(g.Constraints)
		group.Tasks = slices.Clone(g.Tasks)
		for j, task := range group.Tasks {
			if task != nil && heldBy(task.Constraints) {
				free := *task
				free.Constraints = released(task.Constraints)
				group.Tasks[j] = &free
			}
		}
		out.TaskGroups[i] = &group
	}
	return &out
}

func released(constraints []*api.Constraint) []*api.Constraint {
	if !heldBy(constraints) {
		return constraints
	}
	kept := slices.DeleteFunc(slices.Clone(constraints), func(c *api.Constraint) bool { return c != nil && isHold(c) })
	if len(kept) == 0 {
		return nil
	}
	return kept
}
