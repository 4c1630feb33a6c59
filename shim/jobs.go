package shim

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

// Jobs reads single workloads from Nomad: a gate may report before its job has
// come along on the event stream.
type Jobs struct{ client *api.Client }

// NewJobs returns a Jobs that asks through a client, whose token must be allowed
// to read jobs in every namespace.
func NewJobs(client *api.Client) *Jobs { return &Jobs{client} }

// Workload fetches one job and returns the workload of one group of it. A job or
// group that Nomad does not know, or whose job is stopped, is psg.ErrUnknown; a
// job that cannot be translated is psg.ErrInvalid; anything else means that Nomad
// cannot be asked and is psg.ErrUnavailable.
func (j *Jobs) Workload(ctx context.Context, id psg.WorkloadID) (psg.Workload, error) {
	raw, err := requestJob(ctx, j.client, psg.JobID{Namespace: id.Namespace, Job: id.Job})
	if err != nil {
		return psg.Workload{}, fmt.Errorf("job of workload %s: %w", id, err)
	}
	job := new(api.Job)
	switch err := json.Unmarshal(raw, job); {
	case err != nil:
		return psg.Workload{}, fmt.Errorf("job of workload %s: %w: %w", id, psg.ErrUnavailable, err)
	case job.Stop != nil && *job.Stop:
		return psg.Workload{}, fmt.Errorf("job of workload %s is stopped: %w", id, psg.ErrUnknown)
	}
	t, err := TranslateJob(job)
	if err != nil {
		return psg.Workload{}, fmt.Errorf("job of workload %s: %w", id, err)
	}
	for _, w := range t.Workloads {
		if w.ID == id {
			return w, nil
		}
	}
	return psg.Workload{}, fmt.Errorf("group of workload %s: %w to nomad", id, psg.ErrUnknown)
}
