package shim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

// A shift moves instances off a node by starting others first: Nomad finds that
// those on the node can no longer stay, which is a change that it makes behind
// canaries, and stops them once the canaries, as many as they are, are healthy.
// To the group's steering it adds
//
//	constraint { attribute = "${node.class}"  operator = "!="  value = "psg-shift-v1 CANARY PROMOTE" }
//	constraint { attribute = "${node.unique.id}"  operator = "!="  value = "SOURCE" }
//	update { canary = MOVES  auto_promote = true }
//
// The first is true on every node: it marks the group and keeps the update
// block's own two values. It all goes with the next steering.
const shiftMark = "psg-shift-v1 "

// shifted adds a shift to a group that has none. Its update block must be there.
func shifted(g *api.TaskGroup, shift psg.Shift) *api.TaskGroup {
	canary, promote := 0, false
	if g.Update.Canary != nil {
		canary = *g.Update.Canary
	}
	if g.Update.AutoPromote != nil {
		promote = *g.Update.AutoPromote
	}
	out, update := *g, *g.Update
	update.Canary, update.AutoPromote = new(shift.Moves), new(true)
	out.Update = &update
	out.Constraints = append(slices.Clip(g.Constraints),
		api.NewConstraint(markAttribute, string(psg.NotEqual), fmt.Sprint(shiftMark, canary, " ", promote)),
		api.NewConstraint(nodeID, string(psg.NotEqual), string(shift.From)))
	return &out
}

// shiftOf is where the shift of a group is marked, and what the update block had
// before; at is -1 when there is none.
func shiftOf(g *api.TaskGroup) (at int, canary int, promote bool) {
	for i, c := range slices.Backward(g.Constraints) {
		if c == nil || c.LTarget != markAttribute || operator(c.Operand) != psg.NotEqual || !strings.HasPrefix(c.RTarget, shiftMark) {
			continue
		}
		if n, err := fmt.Sscanf(c.RTarget[len(shiftMark):], "%d %t", &canary, &promote); err == nil && n == 2 && i+1 < len(g.Constraints) && g.Update != nil {
			return i, canary, promote
		}
	}
	return -1, 0, false
}

// unshifted is the group without its shift.
func unshifted(g *api.TaskGroup) *api.TaskGroup {
	at, canary, promote := shiftOf(g)
	if at < 0 {
		return g
	}
	out, update := *g, *g.Update
	update.Canary, update.AutoPromote = &canary, &promote
	out.Update = &update
	out.Constraints = without(without(g.Constraints, at+1), at)
	return &out
}

// Shift returns the job with shifts of the groups named, which have none. The
// job itself is not changed.
func Shift(job *api.Job, shifts map[string]psg.Shift) *api.Job {
	out := *job
	out.TaskGroups = slices.Clone(job.TaskGroups)
	for i, g := range out.TaskGroups {
		if shift, named := shifts[text(g.Name)]; named && shiftable(job, g) {
			out.TaskGroups[i] = shifted(g, shift)
		}
	}
	return &out
}

// shiftable reports whether Nomad replaces instances of a group behind canaries
// that can promote themselves.
func shiftable(job *api.Job, g *api.TaskGroup) bool {
	u := g.Update
	return (text(job.Type) == api.JobTypeService || text(job.Type) == "") && u != nil &&
		u.MaxParallel != nil && *u.MaxParallel > 0 && (u.HealthCheck == nil || *u.HealthCheck != "manual")
}

// shifting are the groups of a job that have a shift.
func shifting(job *api.Job) map[string]bool {
	found := map[string]bool{}
	for _, g := range job.TaskGroups {
		if g == nil {
			continue
		}
		if at, _, _ := shiftOf(g); at >= 0 {
			found[text(g.Name)] = true
		}
	}
	return found
}

// mayShift refuses with psg.ErrBusy what would move anything but the instances
// that a shift is for, and with psg.ErrInvalid a group that cannot shift.
func (e *Enactor) mayShift(ctx context.Context, s psg.Steering, job *api.Job) error {
	if len(s.Shifts) == 0 {
		return nil
	}
	allocs, _, err := e.client.Jobs().Allocations(s.Job.Job, false, query(ctx, s.Job.Namespace))
	if err != nil {
		return fmt.Errorf("read allocations of job %q: %w: %w", s.Job.Job, psg.ErrUnavailable, err)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Shifts)) {
		shift := s.Shifts[name]
		at := slices.IndexFunc(job.TaskGroups, func(g *api.TaskGroup) bool { return text(g.Name) == name })
		if at < 0 || !shiftable(job, job.TaskGroups[at]) {
			return fmt.Errorf("group %q of job %q has no update block whose canaries promote themselves: %w", name, s.Job.Job, psg.ErrInvalid)
		}
		there := 0
		for _, a := range allocs {
			if a.TaskGroup == name && a.NodeID == string(shift.From) && a.DesiredStatus == api.AllocDesiredStatusRun && !over(a) {
				there++
			}
		}
		if there != shift.Moves {
			return fmt.Errorf("group %q of job %q has %d instances on %s, not %d: %w", name, s.Job.Job, there, shift.From, shift.Moves, psg.ErrBusy)
		}
	}
	return nil
}

func over(a *api.AllocationListStub) bool {
	switch a.ClientStatus {
	case api.AllocClientStatusComplete, api.AllocClientStatusFailed, api.AllocClientStatusLost:
		return true
	}
	return false
}

// Shifting says how far the shift of a job has come, by the deployment that is
// of its version.
func (e *Enactor) Shifting(ctx context.Context, id psg.JobID) (psg.ShiftState, error) {
	d, err := e.fetch(ctx, id)
	if err != nil {
		return psg.ShiftGone, err
	}
	if len(shifting(d.job)) == 0 || changeable(d.job) != nil {
		return psg.ShiftGone, nil
	}
	deployment, _, err := e.client.Jobs().LatestDeployment(id.Job, query(ctx, id.Namespace))
	switch {
	case err != nil:
		return psg.ShiftRuns, fmt.Errorf("read deployment of job %q: %w: %w", id.Job, psg.ErrUnavailable, err)
	case deployment == nil || d.job.Version == nil || deployment.JobVersion != *d.job.Version:
		return psg.ShiftRuns, nil // Nomad has yet to make one
	}
	switch deployment.Status {
	case api.DeploymentStatusSuccessful:
		return psg.ShiftDone, nil
	case api.DeploymentStatusFailed, api.DeploymentStatusCancelled:
		return psg.ShiftFailed, nil
	}
	return psg.ShiftRuns, nil
}
