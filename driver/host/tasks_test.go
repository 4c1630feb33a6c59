package host_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/driver/host"
)

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
	later := w.start(w.task("later", shell("exit 9")))
	eventually(t, "asks", func() bool { return len(c.asks()) >= 4 })
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
	if exit := w.wait(later); exit.Code != 9 {
		t.Errorf("gated with a command: got %+v", exit)
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
