package driver_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/driver"
	"github.com/psgrid/psg/driver/executor"
	"github.com/psgrid/psg/hclspec"
)

func TestStart_TakesUpWhatAKilledDriverBegan(t *testing.T) {
	c := newController()
	c.grants()
	n := newNode(t, c)
	task := n.task(shell(`echo run >> runs; echo ready; while [ ! -e go ]; do sleep 0.01; done; exit 6`))
	first := n.start(task)
	n.runs(task.ID, "ready")
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	n.open(c)
	// Nomad repeats a start that the plugin died in, with the same ID.
	if again, err := n.Start(task); err != nil || again != first {
		t.Fatalf("got %+v, %v", again, err)
	}
	if err := os.WriteFile(filepath.Join(n.allocDir, "web", "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if exit := n.wait(task.ID); exit.Code != 6 {
		t.Errorf("got %+v", exit)
	}
	if data, _ := os.ReadFile(filepath.Join(n.allocDir, "web", "runs")); string(data) != "run\n" {
		t.Errorf("ran %q", data)
	}
	// One that died before it wrote anything leaves an empty directory.
	task.ID = "a1/web/2"
	second := n.start(task)
	n.wait(task.ID)
	if err := errors.Join(n.Destroy(t.Context(), task.ID, false), os.Mkdir(second.Dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	n.start(task)
	if exit := n.wait(task.ID); exit.Code != 6 {
		t.Errorf("got %+v", exit)
	}
}

// starting leaves a task whose driver was killed while an executor waits for the
// reader of the log FIFO that is returned.
func starting(n *node, c *controller, script string) (driver.Task, driver.Handle, string) {
	n.t.Helper()
	task := n.task(shell(script))
	task.Stdout = filepath.Join(n.allocDir, "fifo")
	if err := syscall.Mkfifo(task.Stdout, 0o600); err != nil {
		n.t.Fatal(err)
	}
	h := n.start(task)
	eventually(n.t, "ask", func() bool { return len(c.asks()) == 1 })
	if err := n.Close(); err != nil {
		n.t.Fatal(err)
	}
	spec, err := json.Marshal(executor.Spec{
		Path: "/bin/sh", Args: task.Stanza.Args, Dir: task.Dir(), Stdout: task.Stdout, Within: n.allocDir,
	})
	if err != nil {
		n.t.Fatal(err)
	}
	answer, theirs, err := os.Pipe()
	if err != nil {
		n.t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "executor", h.Dir)
	cmd.Stdin, cmd.ExtraFiles = strings.NewReader(string(spec)), []*os.File{theirs}
	if err := errors.Join(cmd.Start(), theirs.Close(), answer.Close()); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = cmd.Wait() })
	eventually(n.t, "executor", func() bool {
		_, err := executor.Attach(h.Dir)
		return errors.Is(err, executor.ErrStarting)
	})
	n.open(c)
	return task, h, task.Stdout
}

func TestRecover_WaitsForACommandThatIsBeingStarted(t *testing.T) {
	for _, stop := range []bool{false, true} {
		c := newController()
		n := newNode(t, c)
		task, h, fifo := starting(n, c, "echo > ran; exit 7")
		began := time.Now()
		if err := n.Recover(task, h); err != nil || time.Since(began) > 2*time.Second {
			t.Fatalf("%v after %v", err, time.Since(began))
		}
		if stop {
			if err := n.Stop(t.Context(), task.ID, syscall.SIGTERM, time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		reader, err := os.OpenFile(fifo, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		want := executor.Exit{Code: 7}
		if stop {
			want = executor.Exit{Code: 143, Signal: 15}
		}
		if exit := n.wait(task.ID); exit != want {
			t.Errorf("stopped %v: got %+v", stop, exit)
		}
		eventually(t, "end of the executor", func() bool {
			_, err := executor.Attach(h.Dir)
			return !errors.Is(err, executor.ErrStarting)
		})
		if _, err := os.Stat(filepath.Join(task.Dir(), "ran")); stop != (err != nil) {
			t.Errorf("stopped %v, ran: %v", stop, err)
		}
	}
}

func TestStart_LeavesNothingWhenItCannotRecord(t *testing.T) {
	state := t.TempDir()
	if err := syscall.Mount("tmpfs", state, "tmpfs", 0, "size=8k"); err != nil {
		t.Skipf("SKIPPED: can't mount a small disk: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(state, syscall.MNT_DETACH) })
	full := filepath.Join(state, "full")
	if err := os.WriteFile(full, make([]byte, 8<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	c := newController()
	c.grants()
	n := newNode(t, c, func(p *hclspec.Plugin) { p.StateDir = state })
	task := n.task(hclspec.Stanza{})
	if _, err := n.Start(task); !errors.Is(err, syscall.ENOSPC) || errors.Is(err, driver.ErrRefused) {
		t.Errorf("got %v", err)
	}
	if left, err := os.ReadDir(filepath.Join(state, "tasks")); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	if err := os.Remove(full); err != nil {
		t.Fatal(err)
	}
	n.start(task)
	if exit := n.wait(task.ID); exit.Code != 0 {
		t.Errorf("got %+v", exit)
	}
}

// closing is a controller client that fails its calls when it is closed.
type closing struct {
	*controller
	closed chan struct{}
}

func (c closing) Place(ctx context.Context, ask psg.Ask, after uint64) (psg.Order, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-c.closed:
			cancel()
		case <-ctx.Done():
		}
	}()
	order, err := c.controller.Place(ctx, ask, after)
	if errors.Is(err, context.Canceled) {
		err = errDown
	}
	return order, err
}

func (c closing) Close() error { close(c.closed); return nil }

func TestConfigure_AgainIsNoSilence(t *testing.T) {
	c := newController()
	n := newNode(t, c)
	n.plugin.Fail, n.plugin.FailAfter = hclspec.FailOpen, 0
	reconfigure := func() {
		t.Helper()
		if err := n.Configure(driver.Config{Plugin: n.plugin}, closing{c, make(chan struct{})}); err != nil {
			t.Fatal(err)
		}
	}
	reconfigure()
	task := n.task(hclspec.Stanza{})
	n.start(task)
	for i := range 5 {
		eventually(t, "ask", func() bool { return len(c.asks()) == i+1 })
		reconfigure()
	}
	eventually(t, "ask", func() bool { return len(c.asks()) == 6 })
	if s, err := n.Inspect(task.ID); err != nil || s.Exit != nil || s.Told != "" {
		t.Errorf("got %+v, %v", s, err)
	}
	c.grants()
	n.wait(task.ID)
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if err := n.Configure(driver.Config{Plugin: n.plugin}, c); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

func TestStop_TakesTheLongestTimeout(t *testing.T) {
	n := newNode(t, newController())
	task := n.task(hclspec.Stanza{})
	n.start(task)
	if err := n.Stop(t.Context(), task.ID, syscall.SIGTERM, math.MaxInt64); err != nil {
		t.Error(err)
	}
}

func TestExecSession_EndsWithItsTask(t *testing.T) {
	c := newController()
	c.grants()
	n := newNode(t, c)
	task := n.task(shell("echo ready; sleep 1000"))
	n.start(task)
	n.runs(task.ID, "ready")
	ended := make(chan error, 1)
	go func() {
		_, _, _, err := n.Exec(t.Context(), task.ID, []string{"sh", "-c", "echo in > beside; sleep 1000"}, 0)
		ended <- err
	}()
	eventually(t, "session", contains(filepath.Join(task.Dir(), "beside"), "in"))
	if err := n.Stop(t.Context(), task.ID, syscall.SIGKILL, 0); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(5 * time.Second):
		t.Error("the session goes on")
	}
}

// TestDriver_SurvivesEverythingAtOnce does all that can be done to few tasks from
// many sides while the controllers come and go.
func TestDriver_SurvivesEverythingAtOnce(t *testing.T) {
	before := runtime.NumGoroutine()
	c := newController()
	n := newNode(t, c)
	tasks := []driver.Task{n.task(hclspec.Stanza{}), n.task(shell("sleep 1000"))}
	tasks[1].ID, tasks[1].Stdout = "a1/web/2", ""
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	attack := func(f func(i int)) func() {
		return func() {
			for i := 0; ctx.Err() == nil; i++ {
				f(i)
				runtime.Gosched()
			}
		}
	}
	var sides sync.WaitGroup
	sides.Go(attack(func(i int) {
		switch i % 3 {
		case 0:
			c.says(nil, errDown)
		case 1:
			c.grants()
		case 2:
			c.says(nil, nil)
		}
		_ = n.Configure(driver.Config{Plugin: n.plugin}, closing{c, make(chan struct{})})
		<-time.After(time.Millisecond)
	}))
	for _, task := range tasks {
		for range 2 {
			sides.Go(attack(func(int) {
				if h, err := n.Start(task); err == nil {
					_ = n.Recover(task, h)
				}
			}))
		}
		sides.Go(attack(func(i int) { _ = n.Destroy(ctx, task.ID, i%2 == 0) }))
		sides.Go(attack(func(int) { _ = n.Stop(ctx, task.ID, syscall.SIGTERM, time.Millisecond) }))
		sides.Go(attack(func(int) { _ = n.Signal(task.ID, syscall.SIGHUP) }))
		sides.Go(attack(func(int) { _, _ = n.Wait(ctx, task.ID) }))
		sides.Go(attack(func(int) {
			_, _ = n.Inspect(task.ID)
			_ = n.Stats(ctx, task.ID, 0, func(driver.Usage) error { return errDown })
		}))
	}
	sides.Wait()
	for _, task := range tasks {
		if err := n.Destroy(t.Context(), task.ID, true); err != nil && !errors.Is(err, driver.ErrTaskNotFound) {
			t.Error(err)
		}
	}
	left, err := filepath.Glob(filepath.Join(n.allocDir, "web", ".psg-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "end of all goroutines", func() bool { return runtime.NumGoroutine() <= before+1 })
	if _, err := n.Start(tasks[0]); !errors.Is(err, driver.ErrNotConfigured) {
		t.Errorf("a closed driver: %v", err)
	}
}
