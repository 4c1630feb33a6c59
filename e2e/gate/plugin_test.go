package gate

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

// Killing the plugin loses nothing: what waits goes on waiting and is granted
// later, what runs goes on running and can be stopped.
func TestPlugin_KilledLosesNoTask(t *testing.T) {
	g := useAlone(t)
	holder := g.run(t, "holds-cards").alloc(t)
	holder.ask(t, psg.Running)
	running := g.run(t, "traps").alloc(t)
	running.prints(t, "ready\n")
	waiting := g.run(t, "wants-card").alloc(t)
	before := waiting.ask(t, psg.Queued)
	waiting.runs(t, "gate")

	if err := g.nomad.KillDriver(t.Context()); err != nil {
		t.Fatal(err)
	}
	if output, err := g.nomad.Run(t.Context(), "alloc", "signal", "-s", "SIGHUP", "-task", "main", running.id); err != nil {
		t.Fatalf("nomad alloc signal after the kill: %v\n%s", err, output)
	}
	running.prints(t, "ready\nhup\n")
	if state := waiting.info(t).TaskStates["gate"]; state.State != "running" || state.Restarts != 0 {
		t.Errorf("the gate is %s after %d restarts", state.State, state.Restarts)
	}
	if after := waiting.ask(t, psg.Queued); !after.Ask.At.Equal(before.Ask.At) {
		t.Errorf("asked at %s, before the kill at %s", after.Ask.At, before.Ask.At)
	}

	g.stop(t, "holds-cards")
	waiting.runs(t, "main")
	if output, err := g.nomad.Run(t.Context(), "job", "stop", "-detach", "traps"); err != nil {
		t.Fatalf("nomad job stop: %v\n%s", err, output)
	}
	if end := running.ends(t, "main"); end.ExitCode != 3 {
		t.Errorf("ended with exit code %d, signal %d, want 3", end.ExitCode, end.Signal)
	}
}

// A command that ends while the plugin is away is reported with its exit code
// and not run again.
func TestPlugin_TaskEndedMeanwhileIsNotRunAgain(t *testing.T) {
	g := useAlone(t)
	a := g.run(t, "outlives-plugin").alloc(t)
	a.prints(t, "run\n")

	plugin, err := g.nomad.Driver()
	if err != nil {
		t.Fatal(err)
	}
	// The command ends as soon as this process is no more.
	if err := os.WriteFile(filepath.Join(a.sharedDir(t), "plugin"), fmt.Appendln(nil, plugin), 0o644); err != nil {
		t.Fatal(err)
	}
	a.prints(t, "run\nwatching\n")
	if err := g.nomad.KillDriver(t.Context()); err != nil {
		t.Fatal(err)
	}
	if end := a.ends(t, "main"); end.ExitCode != 7 {
		t.Errorf("ended with exit code %d, signal %d, want 7", end.ExitCode, end.Signal)
	}
	state := a.info(t).TaskStates["main"]
	starts := 0
	for _, e := range state.Events {
		if e.Type == api.TaskStarted {
			starts++
		}
	}
	if starts != 1 || state.Restarts != 0 {
		t.Errorf("started %d times, restarted %d times", starts, state.Restarts)
	}
	a.prints(t, "run\nwatching\n")
}

// sharedDir is the directory that the tasks of an allocation share.
func (a *alloc) sharedDir(t *testing.T) string {
	t.Helper()
	var dir string
	await(t, 5*time.Second, "the allocation has a directory", func() (bool, error) {
		found, err := filepath.Glob(filepath.Join(a.nomad.Dir, "tmp", "*", a.id, "alloc"))
		if err != nil || len(found) != 1 {
			return false, fmt.Errorf("found %v: %w", found, err)
		}
		dir = found[0]
		return true, nil
	})
	return dir
}
