package executor_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/psgrid/psg/driver/executor"
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
	for _, pattern := range []string{"/sys/fs/cgroup/psg-test-executor", "/sys/fs/cgroup/*/psg-test-executor"} {
		left, _ := filepath.Glob(pattern)
		for _, dir := range left {
			_ = os.Remove(dir)
		}
	}
	os.Exit(code)
}

type run struct {
	*executor.Process
	dir, out string
}

// shell starts a script with its output in a file.
func shell(t *testing.T, script string, change ...func(*executor.Spec)) run {
	t.Helper()
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	if err := os.WriteFile(out, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	spec := executor.Spec{
		Path: "/bin/sh", Args: []string{"-c", script}, Env: []string{"PATH=" + os.Getenv("PATH")},
		Dir: dir, Stdout: out, Stderr: out,
		Limits: executor.Limits{Parent: "psg-test-executor", Name: filepath.Base(filepath.Dir(dir))},
	}
	for _, f := range change {
		f(&spec)
	}
	p, err := executor.Start(t.Context(), []string{os.Args[0], "executor"}, dir, spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Stop(syscall.SIGKILL, 0)
		_, _ = p.Wait(context.Background())
	})
	return run{p, dir, out}
}

func (r run) wait(t *testing.T) executor.Exit {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	exit, err := r.Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return exit
}

// says polls until the output holds want, and returns all of it.
func (r run) says(t *testing.T, want string) string {
	t.Helper()
	var text string
	eventually(t, "output with "+want, func() bool {
		data, _ := os.ReadFile(r.out)
		text = string(data)
		return strings.Contains(text, want)
	})
	return text
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

func dead(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(data), ") Z ")
}

func TestWait_TellsExitCodeAndSignal(t *testing.T) {
	for script, want := range map[string]executor.Exit{
		"exit 0":        {},
		"exit 7":        {Code: 7},
		"kill -TERM $$": {Code: 143, Signal: 15},
		"kill -KILL $$": {Code: 137, Signal: 9},
	} {
		r := shell(t, script)
		got := r.wait(t)
		got.At = time.Time{}
		if got != want {
			t.Errorf("%s: got %+v, want %+v", script, got, want)
		}
	}
}

func TestStart_GivesEnvironmentDirectoryAndArguments(t *testing.T) {
	r := shell(t, "echo $A; pwd; env | wc -l; echo $0 $1", func(s *executor.Spec) {
		s.Env = []string{"A=b c"}
		s.Args = append(s.Args, "zero", "one")
	})
	r.wait(t)
	if got, want := r.says(t, "one"), "b c\n"+r.dir+"\n2\nzero one\n"; got != want { // A and the shell's PWD
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestStart_SaysWhyACommandDoesNotStart(t *testing.T) {
	dir := t.TempDir()
	_, err := executor.Start(t.Context(), []string{os.Args[0], "executor"}, dir, executor.Spec{Path: "/does/not/exist"})
	if err == nil || !strings.Contains(err.Error(), "/does/not/exist: no such file") {
		t.Errorf("got %v", err)
	}
	if _, err := executor.Attach(dir); !errors.Is(err, executor.ErrNoCommand) {
		t.Errorf("attach: got %v", err)
	}
}

func TestStart_NeverRunsADirectoryTwice(t *testing.T) {
	r := shell(t, "echo once")
	r.wait(t)
	_, err := executor.Start(t.Context(), []string{os.Args[0], "executor"}, r.dir, executor.Spec{Path: "/bin/true"})
	if err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("got %v", err)
	}
}

func TestStop_KillsTheWholeGroupAfterTheTimeout(t *testing.T) {
	r := shell(t, `trap "echo deaf" TERM; (trap "" TERM; sleep 1000) & echo child=$!; while :; do sleep 0.02; done`)
	text := r.says(t, "child=")
	child, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(text, "child=")))
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := r.Stop(syscall.SIGTERM, 200*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	exit := r.wait(t)
	if exit.Signal != int(syscall.SIGKILL) || exit.Code != 137 || time.Since(began) < 200*time.Millisecond {
		t.Errorf("got %+v after %v", exit, time.Since(began))
	}
	r.says(t, "deaf")
	eventually(t, "dead child", func() bool { return dead(child) })
}

func TestWait_KillsWhatTheFirstProcessLeavesBehind(t *testing.T) {
	r := shell(t, `sleep 1000 & echo child=$!`)
	if exit := r.wait(t); exit.Code != 0 {
		t.Errorf("got %+v", exit)
	}
	child, _ := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(r.says(t, "child="), "child=")))
	eventually(t, "dead child", func() bool { return dead(child) })
}

func TestSignal_ReachesTheFirstProcess(t *testing.T) {
	r := shell(t, `trap "echo got; exit 3" USR1; echo ready; while :; do sleep 0.02; done`)
	r.says(t, "ready")
	if err := r.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if exit := r.wait(t); exit.Code != 3 {
		t.Errorf("got %+v", exit)
	}
	if err := r.Signal(syscall.SIGUSR1); err == nil {
		t.Error("a command that is over took a signal")
	}
	if err := r.Stop(syscall.SIGTERM, 0); err != nil {
		t.Errorf("stop after the end: %v", err)
	}
}

func TestAttach_FindsARunningAndAFinishedCommand(t *testing.T) {
	r := shell(t, `while [ ! -e go ]; do sleep 0.01; done; exit 5`)
	again, err := executor.Attach(r.dir)
	if err != nil || again.Started.PID != r.Started.PID {
		t.Fatalf("got %+v, %v", again, err)
	}
	if err := os.WriteFile(filepath.Join(r.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*executor.Process{again, r.Process} {
		if exit := (run{Process: p}).wait(t); exit.Code != 5 {
			t.Errorf("got %+v", exit)
		}
	}
	over, err := executor.Attach(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	if exit := (run{Process: over}).wait(t); exit.Code != 5 {
		t.Errorf("got %+v", exit)
	}
}

func TestWait_SaysWhenTheExecutorDied(t *testing.T) {
	r := shell(t, `sleep 1000 & echo child=$!; wait`)
	child, _ := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(r.says(t, "child="), "child=")))
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", r.Started.PID))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(stat[strings.LastIndex(string(stat), ")")+1:]))
	executorPID, err := strconv.Atoi(fields[1])
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(executorPID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	again, err := executor.Attach(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	exit := (run{Process: again}).wait(t)
	if exit.Code != 137 || !strings.Contains(exit.Error, "not known") {
		t.Errorf("got %+v", exit)
	}
	eventually(t, "dead command", func() bool { return dead(r.Started.PID) && dead(child) })
	for _, dir := range r.Started.Made {
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("left %s", dir)
		}
	}
}

func TestStart_WritesIntoAFIFOOnceItHasAReader(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "stdout.fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	read := make(chan string, 1)
	go func() {
		f, err := os.Open(fifo)
		if err != nil {
			read <- err.Error()
			return
		}
		defer f.Close()
		data, _ := io.ReadAll(f)
		read <- string(data)
	}()
	r := shell(t, "echo hello", func(s *executor.Spec) { s.Stdout = fifo })
	r.wait(t)
	if got := <-read; got != "hello\n" {
		t.Errorf("got %q", got)
	}
}

func TestStart_SwitchesUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: needs root")
	}
	r := shell(t, "id -u; id -g; id -G", func(s *executor.Spec) {
		s.User = &executor.User{UID: 65534, GID: 65533, Groups: []uint32{65533, 65532}}
		s.Dir = "/"
	})
	r.wait(t)
	if got := r.says(t, "65532"); got != "65534\n65533\n65533 65532\n" {
		t.Errorf("got %q", got)
	}
}

func TestUsage_CountsTheCommand(t *testing.T) {
	r := shell(t, `while :; do :; done`)
	eventually(t, "CPU time", func() bool { return r.Usage().UserCPU >= 30*time.Millisecond })
	if u := r.Usage(); u.RSS == 0 {
		t.Errorf("got %+v", u)
	}
}

func TestAttach_NeverRepeatsWhatMayHaveStarted(t *testing.T) {
	dir := t.TempDir()
	// What an executor leaves that is killed between fork and record.
	if err := os.WriteFile(filepath.Join(dir, "starting.json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := executor.Attach(dir)
	if err != nil {
		t.Fatal(err)
	}
	if exit := (run{Process: p}).wait(t); exit.Code != 137 || !strings.Contains(exit.Error, "not known") {
		t.Errorf("got %+v", exit)
	}
}
