package driver_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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
	code := m.Run()
	for _, pattern := range []string{"/sys/fs/cgroup/psg-test-driver", "/sys/fs/cgroup/*/psg-test-driver"} {
		left, _ := filepath.Glob(pattern)
		for _, dir := range left {
			_ = os.Remove(dir)
		}
	}
	os.Exit(code)
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
		Controllers: []string{"127.0.0.1:1"}, Fail: hclspec.FailClosed, FailAfter: 30 * time.Second, CgroupParent: "psg-test-driver",
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
