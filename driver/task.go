package driver

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/driver/executor"
	"github.com/psgrid/psg/hclspec"
)

// logReaderLimit is how long the end of a gate waits for the reader of its log
// FIFOs.
const logReaderLimit = 2 * time.Second

// task is one task from start or recovery to its end.
type task struct {
	Task
	driver *Driver
	log    *slog.Logger
	dir    string          // its state
	over   context.Context // ends when the task has, or the driver closed first
	finish context.CancelFunc

	wanted  context.Context // ends when the task is stopped
	unwant  context.CancelFunc
	gated   context.Context // ends then, and when the driver closes
	release context.CancelFunc

	starting bool // an executor of an earlier driver is about to start the command; run's own

	mu      sync.Mutex // guards what follows
	record  record
	process *executor.Process // nil until the command runs
	stop    *stopRequest      // the most urgent one
	exit    *executor.Exit    // set before over ends; nil then means that the driver closed first
}

type stopRequest struct {
	signal  syscall.Signal
	timeout time.Duration
}

func (d *Driver) newTask(t Task, dir string, r record) *task {
	wanted, unwant := context.WithCancel(context.Background())
	gated, release := d.joined(wanted)
	over, finish := context.WithCancel(context.Background())
	return &task{
		Task: t, driver: d, dir: dir, record: r, over: over, finish: finish,
		wanted: wanted, unwant: unwant, gated: gated, release: release,
		log: d.log.With("task_id", t.ID, "alloc", string(t.Alloc)),
	}
}

// leave ends what newTask began.
func (t *task) leave() {
	t.release()
	t.unwant()
	t.finish()
}

// run takes the task from wherever it stands to its end.
func (t *task) run() {
	defer t.leave()
	exit, err := t.live()
	if err != nil {
		// The driver is closing: a later one finds the task on disk.
		t.log.Debug("task left to a later driver", "reason", err)
		return
	}
	t.mu.Lock()
	t.exit = &exit
	t.mu.Unlock()
	t.log.Info("task ended", "code", exit.Code, "signal", exit.Signal, "oom", exit.OOM, "error", exit.Error)
}

// live returns how the task ended, or an error when the driver closed first.
func (t *task) live() (executor.Exit, error) {
	for t.process == nil {
		next := t.passGate
		if t.starting {
			next = t.join
		}
		if exit, over, err := next(); over || err != nil {
			return exit, err
		}
	}
	return t.process.Wait(t.driver.ctx)
}

// passGate waits at the gate and does what its opening means. In run mode the
// command runs when it returns, and the task is not over.
func (t *task) passGate() (exit executor.Exit, over bool, err error) {
	g := gate{
		ask:    t.ask(),
		node:   t.label(),
		place:  t.driver.place,
		policy: t.driver.failPolicy,
		tell:   t.tell,
		told:   t.record.Told,
	}
	passed, err := g.wait(t.gated)
	switch {
	case t.driver.ctx.Err() != nil:
		return executor.Exit{}, false, t.driver.ctx.Err()
	case err != nil:
		return t.end(t.stopped())
	}
	if passed.open {
		t.reportOpen(g.ask)
	}
	env := grantEnv(t.Task, passed)
	if t.Stanza.Command != "" {
		return t.launch(env)
	}
	if err := writeGrant(t.Task, env); err != nil {
		return t.end(t.failed(err))
	}
	return t.end(executor.Exit{At: time.Now()})
}

func (t *task) ask() psg.Ask {
	return psg.Ask{ID: psg.RequestID(t.Alloc), Workload: t.Workload, Alloc: t.Alloc, Node: t.Node, At: t.record.Asked}
}

func (d *Driver) failPolicy() (hclspec.FailPolicy, time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.config.Plugin.Fail, d.config.Plugin.FailAfter
}

func (t *task) reportOpen(ask psg.Ask) {
	ask.Started = true
	config, err := t.driver.settings()
	if err == nil {
		err = t.driver.reportLater(config.Plugin.StateDir, report{Ask: ask, TaskID: t.ID, Task: t.Name})
	}
	if err != nil {
		t.log.Warn("start not reported", "error", err)
	}
}

// end records the end of a task without a command and lets its log readers go:
// a reader whose FIFO was never opened would delay the end of the task.
func (t *task) end(exit executor.Exit) (executor.Exit, bool, error) {
	if err := executor.WriteExit(t.dir, exit); err != nil {
		t.log.Error("end not recorded", "error", err)
	}
	err := t.driver.spawn(func() {
		ctx, cancel := context.WithTimeout(t.driver.ctx, logReaderLimit)
		defer cancel()
		for _, path := range []string{t.Stdout, t.Stderr} {
			if f, err := executor.OpenLog(ctx, t.AllocDir, path); err == nil {
				f.Close()
			} else if !os.IsNotExist(err) {
				t.log.Debug("log reader did not come", "path", path, "error", err)
			}
		}
	})
	return exit, true, err
}

// stopped is the end of a task that was stopped at its gate.
func (t *task) stopped() executor.Exit {
	t.mu.Lock()
	defer t.mu.Unlock()
	sig := syscall.SIGINT
	if t.stop != nil {
		sig = t.stop.signal
	}
	return executor.Exit{Code: 128 + int(sig), Signal: int(sig), At: time.Now()}
}

// failed is the end of a task that could not do its work.
func (t *task) failed(err error) executor.Exit {
	t.say("cannot start: " + err.Error())
	return executor.Exit{Code: 1, Error: err.Error(), At: time.Now()}
}

// tell records what the gate said and tells the user.
func (t *task) tell(told, message string) {
	if err := t.note(func(r *record) { r.Told = told }); err != nil {
		t.log.Warn("task state not recorded", "error", err)
	}
	t.say(message)
}

// note changes the task's record, here and on disk.
func (t *task) note(change func(*record)) error {
	t.mu.Lock()
	change(&t.record)
	r := t.record
	t.mu.Unlock()
	return r.write(t.dir)
}

func (t *task) say(message string) {
	t.log.Info("task event", "message", message)
	t.driver.events.emit(Event{TaskID: t.ID, TaskName: t.Name, Alloc: t.Alloc, At: time.Now(), Message: message})
}

// requestStop begins to end the task.
func (t *task) requestStop(sig syscall.Signal, timeout time.Duration) error {
	t.mu.Lock()
	if t.stop == nil || timeout < t.stop.timeout {
		t.stop = &stopRequest{sig, timeout}
	}
	process := t.process
	t.mu.Unlock()
	t.unwant()
	if process == nil {
		return nil
	}
	return process.Stop(sig, timeout)
}

// status is what is known now.
func (t *task) status() Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := Status{ID: t.ID, Name: t.Name, Started: t.record.Asked, Told: t.record.Told, Exit: t.exit}
	if t.process != nil {
		s.PID = t.process.Started.PID
	}
	if t.exit != nil {
		s.Completed, s.PID = t.exit.At, 0
	}
	return s
}

func (t *task) running() (*executor.Process, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.process == nil || t.exit != nil {
		return nil, ErrNoProcess
	}
	return t.process, nil
}
