package gate

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

func TestRun_ExitCodeAndOutputArrive(t *testing.T) {
	g := use(t)
	a := g.run(t, "exits").alloc(t)
	if end := a.ends(t, "main"); end.ExitCode != 7 || end.Signal != 0 {
		t.Errorf("ended with exit code %d, signal %d, want 7, 0", end.ExitCode, end.Signal)
	}
	if got := a.logs(t, "-task", "main"); got != "to stdout\n" {
		t.Errorf("stdout is %q", got)
	}
	if got := a.logs(t, "-stderr", "-task", "main"); got != "to stderr\n" {
		t.Errorf("stderr is %q", got)
	}
	a.ask(t, psg.Released)
}

func TestRun_DeathBySignalArrives(t *testing.T) {
	g := use(t)
	a := g.run(t, "killed").alloc(t)
	if end := a.ends(t, "main"); end.Signal != int(syscall.SIGKILL) {
		t.Errorf("ended with exit code %d, signal %d, want signal 9", end.ExitCode, end.Signal)
	}
}

// A running command gets signals, shares its environment with what is executed
// beside it, and is stopped by the signal its job names.
func TestRun_SignalExecAndStop(t *testing.T) {
	g := use(t)
	a := g.run(t, "traps").alloc(t)
	a.prints(t, "ready\n")

	if output, err := g.nomad.Run(t.Context(), "alloc", "signal", "-s", "SIGHUP", "-task", "main", a.id); err != nil {
		t.Fatalf("nomad alloc signal: %v\n%s", err, output)
	}
	a.prints(t, "ready\nhup\n")

	output, err := g.nomad.Run(t.Context(), "alloc", "exec", "-task", "main", a.id, "/bin/sh", "-c", "echo $NOMAD_ALLOC_ID in $PWD; exit 4")
	exit, failed := err.(*exec.ExitError)
	if !failed || exit.ExitCode() != 4 || !strings.HasPrefix(output, a.id+" in /") {
		t.Errorf("nomad alloc exec: %v\n%s", err, output)
	}

	if output, err := g.nomad.Run(t.Context(), "job", "stop", "-detach", "traps"); err != nil {
		t.Fatalf("nomad job stop: %v\n%s", err, output)
	}
	if end := a.ends(t, "main"); end.ExitCode != 3 {
		t.Errorf("ended with exit code %d, signal %d, want 3: its trap of kill_signal", end.ExitCode, end.Signal)
	}
	a.prints(t, "ready\nhup\nusr1\n")
}

// A command that does not heed kill_signal is killed after kill_timeout, with
// what it started.
func TestRun_KilledAfterItsTimeout(t *testing.T) {
	g := use(t)
	a := g.run(t, "stubborn").alloc(t)
	a.prints(t, "ready\n")
	if output, err := g.nomad.Run(t.Context(), "job", "stop", "-detach", "stubborn"); err != nil {
		t.Fatalf("nomad job stop: %v\n%s", err, output)
	}
	end := a.ends(t, "main")
	if end.Signal != int(syscall.SIGKILL) {
		t.Errorf("ended with exit code %d, signal %d, want signal 9", end.ExitCode, end.Signal)
	}
	killing := event(a.info(t).TaskStates["main"], api.TaskKilling)
	if took := time.Duration(end.Time - killing.Time); took < time.Second || took > 3*time.Second {
		t.Errorf("killed after %s, want its kill_timeout of 1s", took)
	}
}

// prints waits until the standard output of task main is as wanted.
func (a *alloc) prints(t *testing.T, want string) {
	t.Helper()
	var got string
	await(t, 15*time.Second, "main prints", func() (bool, error) {
		var err error
		got, err = a.nomad.Run(t.Context(), "alloc", "logs", "-task", "main", a.id)
		return err == nil && got == want, &mismatch{got, want, err}
	})
}

type mismatch struct {
	got, want string
	err       error
}

func (m *mismatch) Error() string {
	text := "printed " + strings.TrimSpace(m.got) + ", want " + strings.TrimSpace(m.want)
	if m.err != nil {
		text += ": " + m.err.Error()
	}
	return text
}
