package driver_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
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

// The test binary is its own executor.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "executor" {
		if err := executor.Main(os.Args[2], os.Stdin); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

var errDown = errors.New("connection refused")

// controller answers every ask the same way until told otherwise; a nil answer
// is a controller that holds its long polls.
type controller struct {
	mu      sync.Mutex
	order   *psg.Order
	err     error
	changed chan struct{}
	asked   []psg.Ask
}

func newController() *controller { return &controller{changed: make(chan struct{})} }

func (c *controller) says(order *psg.Order, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.order, c.err = order, err
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *controller) grants(devices ...psg.DeviceShare) {
	c.says(&psg.Order{Kind: psg.Grant, Epoch: 3, Sequence: 9, Node: "node-1", Devices: devices}, nil)
}

func (c *controller) Place(ctx context.Context, ask psg.Ask, _ uint64) (psg.Order, error) {
	c.mu.Lock()
	c.asked = append(c.asked, ask)
	c.mu.Unlock()
	for {
		c.mu.Lock()
		order, err, changed := c.order, c.err, c.changed
		c.mu.Unlock()
		if err != nil {
			return psg.Order{}, err
		}
		if order != nil {
			answer := *order
			answer.Ask = ask.ID
			return answer, nil
		}
		select {
		case <-ctx.Done():
			return psg.Order{}, ctx.Err()
		case <-changed:
		}
	}
}

func (c *controller) asks() []psg.Ask {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.asked)
}

// node is a driver, its events and an allocation directory.
type node struct {
	*driver.Driver
	t        *testing.T
	plugin   hclspec.Plugin
	allocDir string

	mu     sync.Mutex
	events []string
}

func newNode(t *testing.T, c *controller, change ...func(*hclspec.Plugin)) *node {
	t.Helper()
	n := &node{t: t, allocDir: t.TempDir(), plugin: hclspec.Plugin{
		Controllers: []string{"127.0.0.1:1"}, Fail: hclspec.FailClosed, FailAfter: 30 * time.Second, CgroupParent: "psg-test",
	}}
	for _, f := range change {
		f(&n.plugin)
	}
	if err := os.MkdirAll(filepath.Join(n.allocDir, "web", "local"), 0o755); err != nil {
		t.Fatal(err)
	}
	n.open(c)
	return n
}

// open makes a driver, as a plugin process that has just been started does.
func (n *node) open(c *controller) {
	n.t.Helper()
	d := driver.New([]string{os.Args[0], "executor"}, slog.New(slog.DiscardHandler))
	if err := d.Configure(driver.Config{Plugin: n.plugin}, c); err != nil {
		n.t.Fatal(err)
	}
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		_ = d.Events(context.Background(), func(e driver.Event) error {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.events = append(n.events, e.Message)
			return nil
		})
	}()
	n.Driver = d
	n.t.Cleanup(func() {
		if err := d.Close(); err != nil {
			n.t.Error(err)
		}
		<-followed
	})
}

func (n *node) said(want string) func() bool {
	return func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return slices.ContainsFunc(n.events, func(m string) bool { return strings.HasPrefix(m, want) })
	}
}

func (n *node) task(stanza hclspec.Stanza) driver.Task {
	return driver.Task{
		ID: "a1/web/1", Name: "web", Alloc: "a1", Node: "node-1", NodeName: "host-1", AllocDir: n.allocDir,
		Workload: psg.WorkloadID{Namespace: "default", Job: "job", Group: "group"},
		Env:      map[string]string{"PATH": os.Getenv("PATH"), "GREETING": "hello"},
		Stdout:   n.file("stdout"), Stderr: n.file("stderr"), Stanza: stanza,
	}
}

func (n *node) file(name string) string {
	path := filepath.Join(n.allocDir, name)
	if f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644); err == nil {
		f.Close()
	}
	return path
}

func (n *node) start(t driver.Task) driver.Handle {
	n.t.Helper()
	h, err := n.Start(t)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = n.Destroy(context.Background(), t.ID, true) })
	return h
}

func (n *node) wait(id string) executor.Exit {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	exit, err := n.Wait(ctx, id)
	if err != nil {
		n.t.Fatal(err)
	}
	exit.At = time.Time{}
	return exit
}

// runs returns when the command of a task runs and has said so.
func (n *node) runs(id, word string) {
	n.t.Helper()
	eventually(n.t, "command that says "+word, func() bool {
		s, err := n.Inspect(id)
		return err == nil && s.PID != 0 && contains(n.file("stdout"), word)()
	})
}

func shell(script string) hclspec.Stanza {
	return hclspec.Stanza{Command: "sh", Args: []string{"-c", script}}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("no %s in 10 s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func contains(path, want string) func() bool {
	return func() bool {
		data, _ := os.ReadFile(path)
		return strings.Contains(string(data), want)
	}
}

func TestGate_WritesWhatWasGranted(t *testing.T) {
	c := newController()
	n := newNode(t, c)
	n.start(n.task(hclspec.Stanza{}))
	c.grants(psg.DeviceShare{Device: "GPU-1"}, psg.DeviceShare{Device: "GPU-2"})
	if exit := n.wait("a1/web/1"); exit != (executor.Exit{}) {
		t.Errorf("got %+v", exit)
	}
	eventually(t, "event", n.said("granted on host-1, devices GPU-1, GPU-2"))
	path := filepath.Join(n.allocDir, "alloc", "psg", "grant.env")
	data, err := os.ReadFile(path)
	want := "PSG_ALLOC=a1\nPSG_NODE=node-1\nPSG_NODE_NAME=host-1\nPSG_GRANT=granted\nPSG_DECISION=3-9\nNVIDIA_VISIBLE_DEVICES=GPU-1,GPU-2\n"
	if err != nil || string(data) != want {
		t.Errorf("got %q, %v", data, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	asked := c.asks()[0]
	if asked.ID != "a1" || asked.Alloc != "a1" || asked.Node != "node-1" || asked.Workload.Group != "group" || asked.At.IsZero() {
		t.Errorf("asked %+v", asked)
	}
}

func TestGate_StopsAtOnce(t *testing.T) {
	n := newNode(t, newController())
	n.start(n.task(shell("true")))
	began := time.Now()
	if err := n.Stop(t.Context(), "a1/web/1", syscall.SIGTERM, time.Minute); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 100*time.Millisecond {
		t.Errorf("took %v", took)
	}
	if exit := n.wait("a1/web/1"); exit.Signal != 15 || exit.Code != 143 {
		t.Errorf("got %+v", exit)
	}
}

func TestGate_RefusesOrdersThatAreNotForIt(t *testing.T) {
	for want, order := range map[string]psg.Order{
		"waiting: no controller answers: order of epoch 2 after one of 3": {Kind: psg.Grant, Epoch: 2, Node: "node-1"},
		"elsewhere: planned on node-2":                                    {Kind: psg.Grant, Epoch: 3, Node: "node-2"},
	} {
		c := newController()
		n := newNode(t, c)
		c.grants()
		first := n.task(hclspec.Stanza{})
		first.ID = "a0/web/0"
		n.start(first)
		n.wait(first.ID)
		c.says(&order, nil)
		n.start(n.task(hclspec.Stanza{}))
		eventually(t, want, n.said(want))
		if s, err := n.Inspect("a1/web/1"); err != nil || s.Exit != nil {
			t.Errorf("%s: got %+v, %v", want, s, err)
		}
	}
}

func TestFailOpen_IsReportedWhenTheControllerIsBack(t *testing.T) {
	for name, stateDir := range map[string]string{"same driver": "", "next driver": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			c := newController()
			c.says(nil, errDown)
			n := newNode(t, c, func(p *hclspec.Plugin) {
				p.Fail, p.FailAfter, p.StateDir = hclspec.FailOpen, 50*time.Millisecond, stateDir
			})
			n.start(n.task(hclspec.Stanza{}))
			if exit := n.wait("a1/web/1"); exit.Code != 0 {
				t.Errorf("got %+v", exit)
			}
			eventually(t, "event", n.said("started without a decision"))
			if !contains(filepath.Join(n.allocDir, "alloc/psg/grant.env"), "PSG_GRANT=open")() {
				t.Error("no grant file")
			}
			if stateDir != "" {
				if err := n.Close(); err != nil {
					t.Fatal(err)
				}
				n.open(c)
			}
			before := len(c.asks())
			c.grants()
			eventually(t, "report", n.said("reported to the controller, which says: granted on node-1"))
			if asks := c.asks(); len(asks) <= before || asks[len(asks)-1].Alloc != "a1" || !asks[len(asks)-1].Started {
				t.Errorf("asked %+v", asks)
			}
			if stateDir != "" {
				eventually(t, "forgotten report", func() bool {
					left, err := filepath.Glob(filepath.Join(stateDir, "unreported", "*"))
					return err == nil && len(left) == 0
				})
			}
		})
	}
}

func TestRun_StartsBehindTheGateWithItsCards(t *testing.T) {
	c := newController()
	n := newNode(t, c)
	n.start(n.task(shell(`echo $GREETING $NVIDIA_VISIBLE_DEVICES; pwd; echo oops >&2; exit 4`)))
	if _, err := n.Driver.Inspect("a1/web/1"); err != nil {
		t.Fatal(err)
	}
	c.grants(psg.DeviceShare{Device: "GPU-7"})
	if exit := n.wait("a1/web/1"); exit.Code != 4 {
		t.Errorf("got %+v", exit)
	}
	data, _ := os.ReadFile(n.file("stdout"))
	if want := "hello GPU-7\n" + filepath.Join(n.allocDir, "web") + "\n"; string(data) != want {
		t.Errorf("stdout %q, want %q", data, want)
	}
	if !contains(n.file("stderr"), "oops")() {
		t.Error("nothing on stderr")
	}
}

func TestRun_SaysWhyACommandCannotStart(t *testing.T) {
	c := newController()
	c.grants()
	n := newNode(t, c)
	n.start(n.task(hclspec.Stanza{Command: "no-such-program"}))
	exit := n.wait("a1/web/1")
	if exit.Code == 0 || !strings.Contains(exit.Error, `"no-such-program" not found`) {
		t.Errorf("got %+v", exit)
	}
	eventually(t, "event", n.said("cannot start: "))
}

func TestRun_StopAndSignal(t *testing.T) {
	c := newController()
	c.grants()
	n := newNode(t, c)
	task := n.task(shell(`trap "echo usr" USR1; trap "" TERM; echo ready; while :; do sleep 0.02; done`))
	n.start(task)
	n.runs(task.ID, "ready")
	if err := n.Signal("a1/web/1", syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	eventually(t, "signal", contains(n.file("stdout"), "usr"))
	if err := n.Stop(t.Context(), "a1/web/1", syscall.SIGTERM, 100*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if exit := n.wait("a1/web/1"); exit.Code != 137 || exit.Signal != 9 {
		t.Errorf("got %+v", exit)
	}
}

func TestRecover_FindsWhatIsThere(t *testing.T) {
	c := newController()
	n := newNode(t, c)
	task := n.task(shell(`echo run >> runs; while [ ! -e go ]; do sleep 0.01; done; exit 6`))
	h := n.start(task)
	next := func() {
		t.Helper()
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		n.open(c)
		if err := n.Recover(task, h); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "ask", func() bool { return len(c.asks()) == 1 })
	next() // at its gate
	eventually(t, "second ask", func() bool { return len(c.asks()) == 2 })
	if asks := c.asks(); !asks[0].At.Equal(asks[1].At) {
		t.Errorf("first submitted at %v, then %v", asks[0].At, asks[1].At)
	}
	c.grants()
	runs := filepath.Join(n.allocDir, "web", "runs")
	eventually(t, "command", contains(runs, "run"))
	next() // its command runs
	if s, err := n.Inspect(task.ID); err != nil || s.PID == 0 {
		t.Errorf("got %+v, %v", s, err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(n.allocDir, "web", "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	eventually(t, "end while no driver is there", func() bool {
		_, over, _ := executor.ReadExit(h.Dir)
		return over
	})
	n.open(c)
	if err := n.Recover(task, h); err != nil { // it has ended
		t.Fatal(err)
	}
	if exit := n.wait(task.ID); exit.Code != 6 {
		t.Errorf("got %+v", exit)
	}
	if data, _ := os.ReadFile(runs); string(data) != "run\n" {
		t.Errorf("ran %q", data)
	}
	if err := n.Destroy(t.Context(), task.ID, false); err != nil {
		t.Fatal(err)
	}
	if err := n.Recover(task, h); err == nil || !strings.Contains(err.Error(), "no record of the task") {
		t.Errorf("recovering a destroyed task: %v", err)
	}
}

func TestRecover_DoesNotRepeatWhatWasSaid(t *testing.T) {
	c := newController()
	n := newNode(t, c)
	task := n.task(hclspec.Stanza{})
	h := n.start(task)
	c.says(&psg.Order{Kind: psg.Wait, Refusal: &psg.Refusal{State: psg.Queued, Summary: "no room"}}, nil)
	eventually(t, "event", n.said("queued: no room"))
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	n.events = nil
	n.open(c)
	if err := n.Recover(task, h); err != nil {
		t.Fatal(err)
	}
	c.grants()
	n.wait(task.ID)
	eventually(t, "event", n.said("granted"))
	if n.said("queued")() {
		t.Errorf("said %q", n.events)
	}
}

func TestExec_RunsBesideTheTask(t *testing.T) {
	c := newController()
	c.grants(psg.DeviceShare{Device: "GPU-1"})
	n := newNode(t, c)
	task := n.task(shell("echo ready; sleep 1000"))
	n.start(task)
	n.runs(task.ID, "ready")
	out, errs, exit, err := n.Exec(t.Context(), task.ID, []string{"sh", "-c", "echo $GREETING $NVIDIA_VISIBLE_DEVICES; echo e >&2; exit 3"}, time.Minute)
	if err != nil || string(out) != "hello GPU-1\n" || string(errs) != "e\n" || exit.Code != 3 {
		t.Errorf("got %q, %q, %+v, %v", out, errs, exit, err)
	}
	began := time.Now()
	_, _, exit, err = n.Exec(t.Context(), task.ID, []string{"sh", "-c", "sleep 1000 & sleep 1000"}, 50*time.Millisecond)
	if err != nil || exit.Signal != 9 || time.Since(began) > 5*time.Second {
		t.Errorf("timeout: got %+v, %v after %v", exit, err, time.Since(began))
	}
	if _, _, _, err = n.Exec(t.Context(), task.ID, []string{"no-such-program"}, 0); err == nil {
		t.Error("ran a program that is not there")
	}
}

func TestExecSession_HasStreamsAndATerminal(t *testing.T) {
	c := newController()
	c.grants()
	n := newNode(t, c)
	task := n.task(shell("echo ready; sleep 1000"))
	n.start(task)
	n.runs(task.ID, "ready")
	for _, tty := range []bool{false, true} {
		var out bytes.Buffer
		sizes := make(chan driver.Size, 1)
		sizes <- driver.Size{Rows: 11, Columns: 22}
		in, typed := io.Pipe()
		go func() { _, _ = io.WriteString(typed, "word\n") }()
		script := "read x; echo got $x; exit 5"
		if tty {
			script = "until [ \"$(stty size)\" = '11 22' ]; do sleep 0.01; done; " + script
		}
		exit, err := n.ExecSession(t.Context(), task.ID, driver.Session{
			Command: []string{"sh", "-c", script}, TTY: tty, Stdin: in, Stdout: &out, Stderr: &out, Resize: sizes,
		})
		typed.Close()
		if err != nil || exit.Code != 5 || !strings.Contains(out.String(), "got word") {
			t.Errorf("tty %v: got %q, %+v, %v", tty, out.String(), exit, err)
		}
	}
}

func TestStats_FollowTheCommand(t *testing.T) {
	c := newController()
	c.grants()
	n := newNode(t, c)
	task := n.task(shell("while :; do :; done"))
	n.start(task)
	enough := errors.New("enough")
	err := n.Stats(t.Context(), task.ID, 100*time.Millisecond, func(u driver.Usage) error {
		if u.UserPercent > 1 && u.RSS > 0 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Errorf("got %v", err)
	}
}

func TestDriver_RefusesWhatItDoesNotKnow(t *testing.T) {
	d := driver.New(nil, slog.New(slog.DiscardHandler))
	if _, err := d.Start(driver.Task{}); !errors.Is(err, driver.ErrNotConfigured) {
		t.Errorf("start: %v", err)
	}
	if err := d.Signal("x", syscall.SIGTERM); !errors.Is(err, driver.ErrTaskNotFound) {
		t.Errorf("signal: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if err := d.Configure(driver.Config{}, newController()); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("configure: %v", err)
	}
}
