package driver

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"syscall"
	"time"

	"github.com/psgrid/psg/driver/executor"
)

// killGrace is how long a task may take to end beyond the timeout of its stop.
const killGrace = 5 * time.Second

// Start begins a task and returns at once: the task waits at its gate. A start
// that an earlier driver began, and was killed before it could answer, is taken
// up: the command may run already.
func (d *Driver) Start(t Task) (Handle, error) {
	config, err := d.settings()
	if err != nil {
		return Handle{}, err
	}
	if err := t.check(); err != nil {
		return Handle{}, err
	}
	defer d.enter(t.ID)()
	if _, err := d.find(t.ID); err == nil {
		return Handle{}, fmt.Errorf("task %s is started already: %w", t.ID, ErrRefused)
	}
	dir, err := makeStateDir(config.Plugin.StateDir, t)
	if err != nil {
		return Handle{}, err
	}
	h := Handle{Version: handleVersion, Dir: dir}
	switch r, err := readRecord(dir); {
	case err == nil:
		return h, d.resume(t, h, r)
	case !errors.Is(err, errNoRecord):
		return Handle{}, fmt.Errorf("make task state: %w", err)
	}
	r := record{Asked: time.Now(), Stanza: t.Stanza}
	if err := r.write(dir); err != nil {
		return Handle{}, errors.Join(fmt.Errorf("record task: %w", err), os.RemoveAll(dir))
	}
	return h, d.adopt(d.newTask(t, dir, r))
}

// enter waits until nobody else starts, recovers or destroys an ID, and keeps
// others out until the returned function is called.
func (d *Driver) enter(id string) (leave func()) {
	for {
		d.mu.Lock()
		busy := d.entered[id]
		if busy == nil {
			mine := make(chan struct{})
			d.entered[id] = mine
			d.mu.Unlock()
			return func() {
				d.mu.Lock()
				delete(d.entered, id)
				d.mu.Unlock()
				close(mine)
			}
		}
		d.mu.Unlock()
		<-busy
	}
}

// adopt takes a task in and lets it live. It is called by whoever has entered.
func (d *Driver) adopt(t *task) error {
	d.mu.Lock()
	if t.Limits.Parent == "" {
		t.Limits.Parent = d.config.Plugin.CgroupParent
	}
	d.tasks[t.ID] = t
	d.mu.Unlock()
	err := d.spawn(t.run)
	if err != nil { // the driver is closing: a later one finds the task on disk
		d.mu.Lock()
		delete(d.tasks, t.ID)
		d.mu.Unlock()
		t.leave()
	}
	return err
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
	defer d.enter(t.ID)()
	if _, err := d.find(t.ID); err == nil {
		return nil
	}
	r, err := readRecord(h.Dir)
	if err == nil {
		err = d.resume(t, h, r)
	}
	if err != nil {
		return fmt.Errorf("recover task %s: %w", t.ID, err)
	}
	return nil
}

// resume takes up a task whose record was found.
func (d *Driver) resume(t Task, h Handle, r record) error {
	t.Stanza = r.Stanza
	exit, over, err := executor.ReadExit(h.Dir)
	if err != nil {
		return err
	}
	if over {
		ended := d.newTask(t, h.Dir, r)
		ended.exit = &exit
		ended.leave()
		d.mu.Lock()
		defer d.mu.Unlock()
		d.tasks[t.ID] = ended
		return nil
	}
	process, err := executor.Attach(h.Dir)
	starting := errors.Is(err, executor.ErrStarting)
	if err != nil && !starting && !errors.Is(err, executor.ErrNoCommand) {
		return err
	}
	found := d.newTask(t, h.Dir, r)
	found.process, found.starting = process, starting
	return d.adopt(found)
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
	case <-t.over.Done():
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
	case <-t.over.Done():
		return nil
	case <-time.After(min(timeout, math.MaxInt64-killGrace) + killGrace):
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
	if t.over.Err() == nil {
		if !force {
			return fmt.Errorf("task %s still runs", id)
		}
		if err := d.Stop(ctx, id, syscall.SIGKILL, 0); err != nil {
			return err
		}
	}
	defer d.enter(id)()
	d.mu.Lock()
	delete(d.tasks, id)
	d.mu.Unlock()
	if err := os.RemoveAll(t.dir); err != nil {
		return fmt.Errorf("remove task state: %w", err)
	}
	return nil
}
