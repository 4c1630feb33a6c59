package controller

import (
	"fmt"
	"slices"
	"time"

	"github.com/psgrid/psg"
)

const (
	// startsWithin is how long a granted allocation may take until Nomad's server
	// knows that it runs; one that takes longer has a start that shows there.
	startsWithin = 15 * time.Second
	// startsLook is how soon it is looked again whether it runs.
	startsLook = 250 * time.Millisecond
)

// mayRegister is asked just before Nomad is given a new version of a job: whether
// this controller leads, and no allocation of the job is just starting.
//
// A version that changes hints alone is updated in place, and a client judges the
// health of what it updates by the task states that the server sent with it. Has a
// task started since the server heard of it last, nothing tells the client, and
// the deployment neither succeeds nor fails until its deadline (seen on Nomad 2.0).
// A gate that is granted between this and the registration may still meet it.
func (c *Controller) mayRegister(job psg.JobID) func() error {
	return func() error {
		if err := c.mustLead(); err != nil {
			return err
		}
		if _, asks := c.job(job); starting(asks, time.Now()) {
			return fmt.Errorf("an allocation of job %q is just starting: %w", job.Job, psg.ErrBusy)
		}
		return nil
	}
}

// starting reports whether an allocation was granted of which Nomad has not told
// yet that it runs.
func starting(asks []psg.AskStatus, now time.Time) bool {
	return slices.ContainsFunc(asks, func(s psg.AskStatus) bool {
		return s.State == psg.Granted && s.Ask.Alloc != "" && now.Sub(s.Placement.Since) < startsWithin
	})
}
