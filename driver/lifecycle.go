package driver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/psgrid/psg/driver/executor"
)

// killGrace is how long a task may take to end beyond the timeout of its stop.
const killGrace = 5 * time.Second

// Start begins a task and returns at once: the task waits at its gate.
func (d *Driver) Start(t Task) (Handle, error) {
	config, err := d.settings()
	if err != nil {
		return Handle{}, err
	}
	if t.ID == "" || t.Alloc == "" || t.Node == "" {
		return Handle{}, fmt.Errorf("task %q of allocation %q on node %q lacks an id: %w", t.ID, t.Alloc, t.Node, ErrRefused)
	}
	if _, err := d.find(t.ID); err == nil {
		return Handle{}, fmt.Errorf("task %s is started already: %w", t.ID, ErrRefused)
	}
	if t.Stanza.Command != "" {
		if err := checkUser(t.User); err != nil {
			return Handle{}, fmt.Errorf("%w: %w", ErrRefused, err)
		}
	}
	dir, err := makeStateDir(config.Plugin.StateDir, t)
	if err != nil {
		return Handle{}, err
	}
	r := record{Asked: time.Now(), Stanza: t.Stanza}
	if err := r.write(dir); err != nil {
		return Handle{}, fmt.Errorf("record task: %w", err)
	}
	return Handle{Version: handleVersion, Dir: dir}, d.adopt(d.newTask(t, dir, r))
}

// adopt takes a task in and lets it live.
func (d *Driver) adopt(t *task) error {
	if t.Limits.Parent == "" {
		t.Limits.Parent = d.cgroupParent()
	}
	d.mu.Lock()
	if d.tasks[t.ID] != nil {
		d.mu.Unlock()
		return fmt.Errorf("task %s is started already", t.ID)
	}
	d.tasks[t.ID] = t
	d.mu.Unlock()
	return d.spawn(t.run)
}

func (d *Driver) cgroupParent() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.config.Plugin.CgroupParent
}

// Recover takes up a task that an earlier driver started. It claims nothing it
// has not found: a task that ended meanwhile is reported as ended, one whose
// command runs is attached to, one at its gate waits on. The stanza is the one
// that the task was started with, whatever t holds. An error says that nothing
// can be known.
func (d *Driver) Recover(t Task, h Handle) error {
	if _, err := d.settings(); err != nil {
		return err
	}
	if _, err := d.find(t.ID); err == nil {
		return nil
	}
	r, err := readRecord(h.Dir)
	if err != nil {
		return fmt.Errorf("recover task %s: %w", t.ID, err)
	}
	t.Stanza = r.Stanza
	recovered := d.newTask(t, h.Dir, r)
	exit, over, err := executor.ReadExit(h.Dir)
	if err != nil {
		return fmt.Errorf("recover task %s: %w", t.ID, err)
	}
	if over {
		recovered.exit = &exit
		recovered.leave()
		d.mu.Lock()
		defer d.mu.Unlock()
		d.tasks[t.ID] = recovered
		return nil
	}
	recovered.process, err = attach(d.ctx, h.Dir)
	if err != nil {
		return fmt.Errorf("recover task %s: %w", t.ID, err)
	}
	return d.adopt(recovered)
}

// attach finds the command of a task; nil means that none was started. One
// that is starting just now, by an executor whose driver was killed, is waited
// for.
func attach(ctx context.Context, dir string) (*executor.Process, error) {
	deadline := time.Now().Add(killGrace)
	for {
		p, err := executor.Attach(dir)
		switch {
		case err == nil:
			return p, nil
		case errors.Is(err, executor.ErrNoCommand):
			return nil, nil
		case time.Now().After(deadline):
			return nil, err
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// Wait returns how a task ended, once it has; ErrClosed when the driver closes
// first.
func (d *Driver) Wait(ctx context.Context, id string) (executor.Exit, error) {
	t, err := d.find(id)
	if err != nil {
		return executor.Exit{}, err
	}
	select {
	case <-ctx.Done():
		return executor.Exit{}, ctx.Err()
	case <-t.done:
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.exit == nil {
		return executor.Exit{}, ErrClosed
	}
	return *t.exit, nil
}

// Stop ends a task and returns once it has ended. At its gate that is at once;
// a command gets sig, and SIGKILL after timeout, its whole process group each
// time.
func (d *Driver) Stop(ctx context.Context, id string, sig syscall.Signal, timeout time.Duration) error {
	t, err := d.find(id)
	if err != nil {
		return err
	}
	if err := t.requestStop(sig, timeout); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.done:
		return nil
	case <-time.After(timeout + killGrace):
		return fmt.Errorf("task %s did not end %v after SIGKILL", id, killGrace)
	}
}

// Signal sends a signal to the first process of a task's command.
func (d *Driver) Signal(id string, sig syscall.Signal) error {
	t, err := d.find(id)
	if err != nil {
		return err
	}
	process, err := t.running()
	if err != nil {
		return err
	}
	return process.Signal(sig)
}

// Inspect says what is known of a task.
func (d *Driver) Inspect(id string) (Status, error) {
	t, err := d.find(id)
	if err != nil {
		return Status{}, err
	}
	return t.status(), nil
}

// Destroy forgets a task and its state. One that runs is an error, unless
// force, which kills it first.
func (d *Driver) Destroy(ctx context.Context, id string, force bool) error {
	t, err := d.find(id)
	if err != nil {
		return err
	}
	select {
	case <-t.done:
	default:
		if !force {
			return fmt.Errorf("task %s still runs", id)
		}
		if err := d.Stop(ctx, id, syscall.SIGKILL, 0); err != nil {
			return err
		}
	}
	d.mu.Lock()
	delete(d.tasks, id)
	d.mu.Unlock()
	if err := os.RemoveAll(t.dir); err != nil {
		return fmt.Errorf("remove task state: %w", err)
	}
	return nil
}
