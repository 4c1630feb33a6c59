package shim

import (
	"context"
	"fmt"
	"slices"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

// Heal has Nomad evaluate a service again of which fewer instances run than it
// wants, and reports whether it did. Nomad does not reschedule some allocations
// that fail just after they were healthy: nothing is pending for them. Where an
// evaluation is pending, blocked or delayed, or a deployment runs, Nomad is about
// to act, and nothing is done.
func (e *Enactor) Heal(ctx context.Context, id psg.JobID) (bool, error) {
	d, err := e.fetch(ctx, id)
	if err != nil {
		return false, err
	}
	if changeable(d.job) != nil || text(d.job.Type) != api.JobTypeService {
		return false, nil
	}
	asked := query(ctx, id.Namespace)
	evaluations, _, err := e.client.Jobs().Evaluations(id.Job, asked)
	if err != nil {
		return false, fmt.Errorf("read evaluations of job %q: %w: %w", id.Job, psg.ErrUnavailable, err)
	}
	if slices.ContainsFunc(evaluations, func(v *api.Evaluation) bool { return v.Status == "pending" || v.Status == "blocked" }) {
		return false, nil
	}
	deployment, _, err := e.client.Jobs().LatestDeployment(id.Job, asked)
	if err != nil {
		return false, fmt.Errorf("read deployment of job %q: %w: %w", id.Job, psg.ErrUnavailable, err)
	}
	if deployment != nil && deployment.Status == api.DeploymentStatusRunning {
		return false, nil
	}
	allocs, _, err := e.client.Jobs().Allocations(id.Job, false, asked)
	if err != nil {
		return false, fmt.Errorf("read allocations of job %q: %w: %w", id.Job, psg.ErrUnavailable, err)
	}
	if !short(d.job, allocs) {
		return false, nil
	}
	write := (&api.WriteOptions{Namespace: id.Namespace}).WithContext(ctx)
	if _, _, err := e.client.Jobs().ForceEvaluate(id.Job, write); err != nil { // within the job's own reschedule policy
		return false, fmt.Errorf("evaluate job %q: %w", id.Job, err)
	}
	return true, nil
}

// short reports whether a group has fewer allocations that run, or are about to,
// than it wants.
func short(job *api.Job, allocs []*api.AllocationListStub) bool {
	live := map[string]int{}
	for _, a := range allocs {
		if a.ClientStatus == api.AllocClientStatusRunning || a.ClientStatus == api.AllocClientStatusPending {
			live[a.TaskGroup]++
		}
	}
	return slices.ContainsFunc(job.TaskGroups, func(g *api.TaskGroup) bool {
		return g != nil && g.Count != nil && live[text(g.Name)] < *g.Count
	})
}
