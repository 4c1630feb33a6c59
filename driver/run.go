package driver

import (
	"errors"
	"time"

	"github.com/psgrid/psg/driver/executor"
)

const joinPause = 20 * time.Millisecond // between two looks for a command that is being started

// launch starts the command; the task is over when it can't be started.
func (t *task) launch(env []string) (executor.Exit, bool, error) {
	spec, err := commandSpec(t.Task, env)
	if err == nil {
		err = t.note(func(r *record) { r.Granted = env })
	}
	if err != nil {
		return t.end(t.failed(err))
	}
	// A driver that closes sees the start through: nobody else knows yet what
	// runs.
	process, err := executor.Start(t.wanted, t.driver.launcher, t.dir, spec)
	switch {
	case errors.Is(err, executor.ErrStarting):
		t.starting = true
		return executor.Exit{}, false, nil
	case t.wanted.Err() != nil && err != nil:
		return t.end(t.stopped())
	case err != nil:
		return t.end(t.failed(err))
	}
	t.took(process)
	return executor.Exit{}, false, nil
}

// took notes that the command runs.
func (t *task) took(process *executor.Process) {
	for _, limit := range process.Started.Unapplied {
		t.say("limit not applied: " + limit)
	}
	t.mu.Lock()
	t.process = process
	stop := t.stop
	t.mu.Unlock()
	if stop != nil { // it came while the command started
		if err := process.Stop(stop.signal, stop.timeout); err != nil {
			t.log.Error("stop failed", "error", err)
		}
	}
}

// join waits for the command that an executor of an earlier driver is about to
// start. Where it died before, the gate is next.
func (t *task) join() (executor.Exit, bool, error) {
	for {
		process, err := executor.Attach(t.dir)
		switch {
		case err == nil:
			t.took(process)
			return executor.Exit{}, false, nil
		case errors.Is(err, executor.ErrNoCommand):
			t.starting = false
			return executor.Exit{}, false, nil
		case !errors.Is(err, executor.ErrStarting):
			t.log.Warn("command not found yet", "error", err)
		case t.wanted.Err() != nil:
			if forbidden, err := executor.Forbid(t.dir); forbidden || err != nil {
				return t.end(t.stopped())
			}
		}
		if err := sleep(t.driver.ctx, joinPause); err != nil {
			return executor.Exit{}, false, err
		}
	}
}
