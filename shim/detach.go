package shim

import (
	"context"
	"fmt"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

// Detached is what became of one job that was to be given back to Nomad.
type Detached struct {
	Namespace string `json:"namespace"`
	Job       string `json:"job"`
	Changed   bool   `json:"changed"`        // hints, or the hold, were taken off, in one version
	Gates     int    `json:"gates"`          // tasks that still need PSG's driver
	Left      string `json:"left,omitempty"` // why it stays as it is
}

// Detach takes PSG's hints and the hold off every job of a namespace, "*" for
// all. No task restarts: both change in place. Gates and run tasks are the
// user's and stay. Jobs with nothing of PSG's in them are not returned.
func (e *Enactor) Detach(ctx context.Context, namespace string) ([]Detached, error) {
	stubs, _, err := e.client.Jobs().List(query(ctx, namespace))
	if err != nil {
		return nil, fmt.Errorf("list jobs: %w", err)
	}
	var all []Detached
	for _, stub := range stubs {
		if stub.Stop {
			continue
		}
		one, err := e.detach(ctx, psg.JobID{Namespace: stub.Namespace, Job: stub.ID})
		if err != nil {
			one.Left = err.Error()
		}
		if one.Changed || one.Gates > 0 || one.Left != "" {
			all = append(all, one)
		}
	}
	return all, nil
}

func (e *Enactor) detach(ctx context.Context, id psg.JobID) (Detached, error) {
	out := Detached{Namespace: id.Namespace, Job: id.Job}
	d, err := e.fetch(ctx, id)
	if err != nil {
		return out, err
	}
	out.Gates = gates(d.job)
	before, wanted := d.job, unheld(Strip(d.job))
	if same(before, wanted) {
		return out, nil
	}
	if err := changeable(before); err != nil {
		return out, err
	}
	if reruns, err := e.wouldRerun(ctx, id, before); err != nil {
		return out, err
	} else if reruns {
		return out, fmt.Errorf("a new version would run its completed instances again; its hints do no harm: %w", psg.ErrBusy)
	}
	if !isHeld(before) { // else its deployment waits for the hold to go
		if err := e.mayInterrupt(ctx, psg.Steering{Job: id}, before); err != nil {
			return out, err
		}
	}
	submission, err := e.submission(ctx, id, before)
	if err != nil {
		return out, err
	}
	if err := d.set(wanted); err != nil {
		return out, err
	}
	out.Changed, err = e.register(ctx, id, d, submission)
	return out, err
}

// gates counts the tasks that run on PSG's driver.
func gates(job *api.Job) (n int) {
	for _, g := range job.TaskGroups {
		for _, task := range g.Tasks {
			if task.Driver == Driver {
				n++
			}
		}
	}
	return n
}
