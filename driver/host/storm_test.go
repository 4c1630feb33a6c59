package host_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

// TestPluginKill_AtAnyMomentRunsEachCommandOnce kills the plugin while tasks are
// being started, granted, stopped and recovered.
func TestPluginKill_AtAnyMomentRunsEachCommandOnce(t *testing.T) {
	c := listen(t, "127.0.0.1:0")
	c.grants()
	w := start(t, []any{c.address})
	const rounds = 12
	for i := range rounds {
		task := w.task("web", shell("echo run >> runs; sleep 0.05; exit 3"))
		task.Alloc = psg.AllocID(fmt.Sprintf("a%d", i))
		id := w.start(task)
		killed := time.After(time.Duration(rand.IntN(60)) * time.Millisecond)
		<-killed
		w.KillPlugin()
		if err := w.Reattach(t.Context()); err != nil {
			t.Fatal(err)
		}
		if exit := w.wait(id); exit.Code != 3 {
			t.Errorf("round %d: got %+v", i, exit)
		}
		if runs, _ := os.ReadFile(filepath.Join(w.AllocDir(task.Alloc), "web", "runs")); string(runs) != "run\n" {
			t.Errorf("round %d: ran %q", i, runs)
		}
		if err := w.Destroy(t.Context(), id); err != nil {
			t.Error(err)
		}
		if left, _ := filepath.Glob(filepath.Join(w.AllocDir(task.Alloc), "web", "private", "*")); len(left) > 0 {
			t.Errorf("left %v", left)
		}
	}
	if left, _ := filepath.Glob("/sys/fs/cgroup/*/psg-test-host/a*"); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

func TestClose_FinishesLogsWithoutThePlugin(t *testing.T) {
	w := start(t, []any{"127.0.0.1:1"})
	w.start(w.task("web", shell("true")))
	w.KillPlugin()
	fifos := func() int {
		left, err := filepath.Glob(filepath.Join(w.AllocDir("a1"), "alloc", "logs", ".*.fifo"))
		if err != nil {
			t.Fatal(err)
		}
		return len(left)
	}
	if fifos() != 2 {
		t.Fatal("no FIFOs to lose")
	}
	if err := w.Host.Close(); err == nil || !strings.Contains(err.Error(), "destroy task") {
		t.Errorf("got %v", err)
	}
	if n := fifos(); n != 0 {
		t.Errorf("left %d FIFOs", n)
	}
	if err := w.Reattach(t.Context()); err != nil { // for the cleanup's own Close
		t.Fatal(err)
	}
}

func TestStartTask_SurvivesHostileTasks(t *testing.T) {
	c := listen(t, "127.0.0.1:0")
	c.grants()
	w := start(t, []any{c.address})
	deep := any("x")
	for range 2000 {
		deep = []any{deep}
	}
	for name, config := range map[string]map[string]any{
		"deep":   {"args": deep},
		"number": {"command": 3.5, "args": map[string]any{"a": 1}},
		"blocks": {"gpu": []any{map[string]any{}, map[string]any{}}},
		"share":  {"gpu": map[string]any{"share": int64(-1 << 63)}},
	} {
		if _, err := w.StartTask(t.Context(), w.task("web", config)); err == nil {
			t.Errorf("%s: started", name)
		}
	}
	for _, config := range []map[string]any{
		{"command": "a\x00b"},
		{"command": strings.Repeat("x", 1<<20)},
		{"command": "true", "args": []any{"a\x00b"}},
		{"command": "true", "args": []any{strings.Repeat("x", 3<<20)}},
		{"command": "/"},
		{"command": ".."},
	} {
		id := w.start(w.task("web", config))
		if exit := w.wait(id); exit.OK() || exit.Error == "" {
			t.Errorf("%.40v: got %+v", config, exit)
		}
		if err := w.Destroy(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	if !w.Info().Healthy {
		t.Error("the plugin is ill")
	}
}

func TestRun_TellsThatTheKernelKilledForMemory(t *testing.T) {
	c := listen(t, "127.0.0.1:0")
	c.grants()
	w := start(t, []any{c.address})
	task := w.task("web", shell("s=xxxxxxxxxxxxxxxx; while :; do s=$s$s; done"))
	task.Resources = psg.Resources{psg.Memory: 16}
	id := w.start(task)
	exit := w.wait(id)
	if w.said("limit not applied")() {
		t.Skip("SKIPPED: this machine does not permit limits")
	}
	if !exit.OOM || exit.Signal != 9 {
		t.Errorf("got %+v", exit)
	}
}
