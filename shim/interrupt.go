package shim

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

// mayRegister refuses a new version of a job that must not have one: with
// psg.ErrBusy not now, with psg.ErrUnknown not at all.
func (e *Enactor) mayRegister(ctx context.Context, s psg.Steering, job *api.Job) error {
	if !s.Release {
		if reruns, err := e.wouldRerun(ctx, s.Job, job); err != nil {
			return err
		} else if reruns {
			return fmt.Errorf("a new version of batch job %q would run again what has completed: %w", s.Job.Job, psg.ErrUnknown)
		}
	}
	own := s.Abandon && len(shifting(job)) > 0 // the deployment is of the shift
	if err := e.mayInterrupt(ctx, s, job); err != nil && !own {
		return err
	}
	return e.mayShift(ctx, s, job)
}

// mayInterrupt refuses with psg.ErrBusy while a deployment runs, because a new
// version of the job would replace it. One that waits for this very change goes on
// under the new version, unless there are canaries that would be lost for it.
func (e *Enactor) mayInterrupt(ctx context.Context, s psg.Steering, job *api.Job) error {
	deployment, _, err := e.client.Jobs().LatestDeployment(s.Job.Job, query(ctx, s.Job.Namespace))
	if err != nil {
		return fmt.Errorf("read deployment of job %q: %w: %w", s.Job.Job, psg.ErrUnavailable, err)
	}
	if deployment == nil {
		return nil
	}
	switch deployment.Status {
	case api.DeploymentStatusSuccessful, api.DeploymentStatusFailed, api.DeploymentStatusCancelled:
		return nil
	case api.DeploymentStatusRunning:
	default:
		return fmt.Errorf("job %q has a deployment that is %s: %w", s.Job.Job, deployment.Status, psg.ErrBusy)
	}
	if !s.Supersede && !s.Release {
		return fmt.Errorf("job %q has a deployment that runs: %w", s.Job.Job, psg.ErrBusy)
	}
	if group := atStake(deployment, s, job); group != "" {
		return fmt.Errorf("job %q has canaries of group %q that are not promoted yet: %w", s.Job.Job, group, psg.ErrBusy)
	}
	return nil
}

// atStake is a group of which a canary has started that a new version of the job
// would end; none where canaries cannot be promoted before that version: one of
// them waits for it at a gate, or is held.
func atStake(deployment *api.Deployment, s psg.Steering, job *api.Job) (group string) {
	for _, name := range slices.Sorted(maps.Keys(deployment.TaskGroups)) {
		state := deployment.TaskGroups[name]
		if state == nil || state.DesiredCanaries == 0 || state.Promoted {
			continue
		}
		waits := slices.ContainsFunc(state.PlacedCanaries, func(id string) bool { return slices.Contains(s.Waiting, psg.AllocID(id)) })
		switch {
		case waits, s.Release && heldGroup(job, name):
			return ""
		case len(state.PlacedCanaries) > 0 && group == "":
			group = name
		}
	}
	return group
}

// heldGroup reports whether a group waits for the hold to be taken off.
func heldGroup(job *api.Job, name string) bool {
	return heldBy(present(job.Constraints)) || slices.ContainsFunc(job.TaskGroups, func(g *api.TaskGroup) bool {
		return g != nil && text(g.Name) == name && (heldBy(present(g.Constraints)) ||
			slices.ContainsFunc(g.Tasks, func(t *api.Task) bool { return t != nil && heldBy(present(t.Constraints)) }))
	})
}
