package host_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/driver/host"
)

// binary is the plugin, built once for all tests.

var binary string

func TestMain(m *testing.M) {
	code, err := buildAndRun(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func buildAndRun(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "psg-host-test-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	binary = filepath.Join(dir, "nomad-driver-psg")
	build := exec.Command("go", "build", "-o", binary, "github.com/psgrid/psg/cmd/nomad-driver-psg")
	if out, err := build.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("build plugin: %w\n%s", err, out)
	}
	code = m.Run()
	for _, pattern := range []string{"/sys/fs/cgroup/psg-test-host", "/sys/fs/cgroup/*/psg-test-host"} {
		left, _ := filepath.Glob(pattern)
		for _, dir := range left {
			_ = os.Remove(dir)
		}
	}
	return code, nil
}

// world is a host with its events.

type world struct {
	*host.Host
	t   testing.TB
	dir string

	mu     sync.Mutex
	events []string
}

func start(t testing.TB, controllers []any, change ...func(map[string]any)) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir()}
	config := map[string]any{"controllers": controllers, "cgroup_parent": "psg-test-host"}
	for _, f := range change {
		f(config)
	}
	h, err := host.Start(t.Context(), host.Config{
		Binary: binary, Dir: w.dir, Plugin: config, Node: "node-1", NodeName: "host-1",
		OnEvent: func(e host.Event) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, e.Message)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Host = h
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *world) said(prefix string) func() bool {
	return func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return slices.ContainsFunc(w.events, func(m string) bool { return strings.HasPrefix(m, prefix) })
	}
}

func (w *world) task(name string, config map[string]any) host.Task {
	return host.Task{
		Alloc: "a1", Name: name, Config: config,
		Workload: psg.WorkloadID{Namespace: "default", Job: "job", Group: "group"},
	}
}

func (w *world) start(t host.Task) host.TaskID {
	w.t.Helper()
	id, err := w.StartTask(w.t.Context(), t)
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

func (w *world) wait(id host.TaskID) host.Exit {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 15*time.Second)
	defer cancel()
	exit, err := w.Wait(ctx, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return exit
}

func (w *world) log(task, kind string) string {
	data, _ := os.ReadFile(filepath.Join(w.AllocDir("a1"), "alloc", "logs", task+"."+kind+".0"))
	return string(data)
}

func shell(script string) map[string]any {
	return map[string]any{"command": "sh", "args": []any{"-c", script}}
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(15 * time.Second)
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("no %s in 15 s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
