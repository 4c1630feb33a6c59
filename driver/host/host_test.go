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
	"syscall"
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
	return m.Run(), nil
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
	config := map[string]any{"controllers": controllers, "cgroup_parent": "psg-test"}
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

func TestStart_TellsWhatThePluginIs(t *testing.T) {
	w := start(t, []any{"127.0.0.1:1"})
	info := w.Info()
	if info.Name != "psg" || !info.Healthy || info.Health != "healthy" || info.Version == "" {
		t.Errorf("got %+v", info)
	}
}

func TestStart_RefusesAWrongConfig(t *testing.T) {
	for want, config := range map[string]map[string]any{
		"controllers: is required":   {},
		"controler: unknown field":   {"controllers": []any{"h:1"}, "controler": "x"},
		"tls.keys: unknown field":    {"controllers": []any{"h:1"}, "tls": []any{map[string]any{"keys": "x"}}},
		`fail: must be "open"`:       {"controllers": []any{"h:1"}, "fail": "ajar"},
		"tls.ca: open /no/such/file": {"controllers": []any{"h:1"}, "tls": map[string]any{"ca": "/no/such/file"}},
	} {
		_, err := host.Start(t.Context(), host.Config{Binary: binary, Dir: t.TempDir(), Node: "n", Plugin: config})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v", config, err)
		}
	}
}

func TestStartTask_RefusesAWrongStanza(t *testing.T) {
	w := start(t, []any{"127.0.0.1:1"})
	for want, config := range map[string]map[string]any{
		"gpu.cuont: unknown field":      {"gpu": map[string]any{"cuont": 1}},
		"gpu.count: must be 1 to 1024":  {"gpu": map[string]any{"count": 0}},
		"deadline: expected a duration": {"deadline": "soon"},
		`user "no-such-user"`:           shell("true"),
	} {
		task := w.task("web", config)
		task.User = "no-such-user"
		if _, err := w.StartTask(t.Context(), task); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v", config, err)
		}
	}
}

func TestRunAlloc_PassesItsGatesFirst(t *testing.T) {
	c := listen(t, "127.0.0.1:0")
	w := start(t, []any{c.address})
	c.refuses(psg.Queued, "no room: memory_mb short by 512")
	type result struct {
		ids []host.TaskID
		err error
	}
	ran := make(chan result, 1)
	go func() {
		ids, err := w.RunAlloc(t.Context(), host.Alloc{
			ID: "a1", Workload: psg.WorkloadID{Namespace: "default", Job: "job", Group: "group"},
			Gates: []host.Task{{Name: "gate"}},
			Tasks: []host.Task{{Name: "web", Config: shell("echo $NVIDIA_VISIBLE_DEVICES on $PSG_NODE; exit 3")}},
		})
		ran <- result{ids, err}
	}()
	eventually(t, "event", w.said("queued: no room: memory_mb short by 512"))
	c.refuses(psg.Denied, "policy gpu_colocation")
	eventually(t, "event", w.said("denied: policy gpu_colocation"))
	c.grants(psg.DeviceShare{Device: "GPU-1"})
	r := <-ran
	if r.err != nil || len(r.ids) != 1 {
		t.Fatalf("got %v, %v", r.ids, r.err)
	}
	eventually(t, "event", w.said("granted on host-1, devices GPU-1"))
	if exit := w.wait(r.ids[0]); exit.Code != 3 {
		t.Errorf("got %+v", exit)
	}
	eventually(t, "output", func() bool { return w.log("web", "stdout") == "GPU-1 on node-1\n" })
}

func TestStop_IsImmediateWhileGated(t *testing.T) {
	c := listen(t, "127.0.0.1:0")
	w := start(t, []any{c.address})
	id := w.start(w.task("gate", nil))
	eventually(t, "ask", func() bool { return len(c.asks()) == 1 })
	began := time.Now()
	if err := w.Stop(t.Context(), id, "", time.Minute); err != nil {
		t.Fatal(err)
	}
	if exit := w.wait(id); exit.OK() || time.Since(began) > 100*time.Millisecond {
		t.Errorf("got %+v after %v", exit, time.Since(began))
	}
}

func TestPluginKill_LosesNoTask(t *testing.T) {
	c := listen(t, "127.0.0.1:0")
	c.grants()
	w := start(t, []any{c.address})
	running := w.start(w.task("running", shell(`echo started; while [ ! -e local/go ]; do sleep 0.01; done; exit 7`)))
	ending := w.start(w.task("ending", shell(`echo $$ > local/pid; while [ ! -e local/go ]; do sleep 0.01; done; exit 8`)))
	file := func(task, name string) string { return filepath.Join(w.AllocDir("a1"), task, "local", name) }
	eventually(t, "commands", func() bool {
		_, err := os.Stat(file("ending", "pid"))
		return err == nil && w.log("running", "stdout") == "started\n"
	})
	c.refuses(psg.Queued, "no room")
	gated := w.start(w.task("gated", nil))
	eventually(t, "event", w.said("queued: no room"))
	waited := make(chan host.Exit, 1)
	go func() {
		exit, err := w.Wait(t.Context(), running)
		if err != nil {
			t.Error(err)
		}
		waited <- exit
	}()

	old := w.Info().PID
	w.KillPlugin()
	if err := os.WriteFile(file("ending", "go"), nil, 0o644); err != nil { // it ends while no plugin is there
		t.Fatal(err)
	}
	var pid int
	data, err := os.ReadFile(file("ending", "pid"))
	if _, scanned := fmt.Sscan(string(data), &pid); err != nil || scanned != nil {
		t.Fatal(err, scanned)
	}
	eventually(t, "end", func() bool { return syscall.Kill(pid, 0) != nil })
	if err := w.Reattach(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w.Info().PID == old {
		t.Fatal("the plugin was not killed")
	}
	if exit := w.wait(ending); exit.Code != 8 {
		t.Errorf("ended meanwhile: got %+v", exit)
	}
	enough := false
	if err := w.Stats(t.Context(), running, 100*time.Millisecond, func(u host.Usage) bool { enough = u.RSS > 0; return !enough }); err != nil || !enough {
		t.Errorf("stats after the restart: %v", err)
	}
	if err := os.WriteFile(file("running", "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if exit := <-waited; exit.Code != 7 {
		t.Errorf("running: got %+v", exit)
	}
	c.grants()
	if exit := w.wait(gated); !exit.OK() {
		t.Errorf("gated: got %+v", exit)
	}
	if got := w.log("running", "stdout"); got != "started\n" {
		t.Errorf("ran again: %q", got)
	}
}

func TestRun_SignalsExecAndStop(t *testing.T) {
	c := listen(t, "127.0.0.1:0")
	c.grants()
	w := start(t, []any{c.address})
	id := w.start(w.task("web", shell(`trap "echo usr" USR1; trap "" TERM; echo ready; while :; do sleep 0.02; done`)))
	eventually(t, "command", func() bool {
		s, err := w.Inspect(t.Context(), id)
		return err == nil && s.PID != 0 && strings.Contains(w.log("web", "stdout"), "ready")
	})
	if err := w.Signal(t.Context(), id, "SIGUSR1"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "signal", func() bool { return strings.Contains(w.log("web", "stdout"), "usr") })
	if err := w.Signal(t.Context(), id, "SIGNONE"); err == nil || !strings.Contains(err.Error(), `unknown signal "SIGNONE"`) {
		t.Errorf("got %v", err)
	}
	out, errs, exit, err := w.Exec(t.Context(), id, []string{"sh", "-c", "echo $NOMAD_TASK_NAME; echo e >&2; exit 2"}, time.Minute)
	if err != nil || string(out) != "web\n" || string(errs) != "e\n" || exit.Code != 2 {
		t.Errorf("got %q, %q, %+v, %v", out, errs, exit, err)
	}
	if err := w.Stop(t.Context(), id, "SIGTERM", 100*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if exit := w.wait(id); exit.Code != 137 || exit.Signal != 9 {
		t.Errorf("got %+v", exit)
	}
}

func TestFail_FollowsThePolicyWithoutAController(t *testing.T) {
	c := listen(t, "127.0.0.1:0") // for its address
	c.server.Stop()
	set := func(policy string) func(map[string]any) {
		return func(config map[string]any) { config["fail"], config["fail_after"] = policy, "200ms" }
	}
	t.Run("closed", func(t *testing.T) {
		w := start(t, []any{c.address}, set("closed"))
		id := w.start(w.task("gate", nil))
		eventually(t, "event", w.said(`waiting: no controller has answered for 200ms (fail = "closed")`))
		eventually(t, "health", func() bool {
			info := w.Info()
			return info.Healthy && strings.HasPrefix(info.Health, "no controller has answered since")
		})
		back := listen(t, c.address)
		back.grants()
		if exit := w.wait(id); !exit.OK() {
			t.Errorf("got %+v", exit)
		}
	})
	t.Run("open", func(t *testing.T) {
		w := start(t, []any{c.address}, set("open"))
		id := w.start(w.task("gate", nil))
		if exit := w.wait(id); !exit.OK() {
			t.Errorf("got %+v", exit)
		}
		eventually(t, "event", w.said(`started without a decision: no controller has answered for 200ms (fail = "open")`))
		back := listen(t, c.address)
		back.grants()
		eventually(t, "report", func() bool { return len(back.asks()) > 0 })
		if ask := back.asks()[0]; ask.Alloc != "a1" || !ask.Started {
			t.Errorf("reported %+v", ask)
		}
		eventually(t, "event", w.said("reported to the controller"))
	})
}
