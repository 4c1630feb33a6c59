package executor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/psgrid/psg/driver/executor"
)

// parent is the executor of a running command.
func parent(t *testing.T, pid int) int {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	ppid, err := strconv.Atoi(strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))[1])
	if err != nil {
		t.Fatal(err)
	}
	return ppid
}

// number reads "word=N" from what a command said.
func (r run) number(t *testing.T, word string) int {
	t.Helper()
	_, text, _ := strings.Cut(r.says(t, word+"="), word+"=")
	text, _, _ = strings.Cut(text, "\n")
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// deserted launches an executor whose starter dies at once.
func deserted(t *testing.T, dir string, spec executor.Spec) *exec.Cmd {
	t.Helper()
	input, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	answer, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "executor", dir)
	cmd.Stdin, cmd.ExtraFiles = bytes.NewReader(input), []*os.File{theirs}
	if err := errors.Join(cmd.Start(), theirs.Close(), answer.Close()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd
}

func TestForbid_EndsAStartThatNobodyWaitsFor(t *testing.T) {
	dir := t.TempDir()
	fifo, ran := filepath.Join(dir, "fifo"), filepath.Join(dir, "ran")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := deserted(t, dir, executor.Spec{Path: "/bin/sh", Args: []string{"-c", "echo > " + ran}, Stdout: fifo, Dir: dir})
	eventually(t, "starting executor", func() bool {
		_, err := executor.Attach(dir)
		return errors.Is(err, executor.ErrStarting)
	})
	if _, err := executor.Start(t.Context(), []string{os.Args[0], "executor"}, dir, executor.Spec{Path: "/bin/true"}); !errors.Is(err, executor.ErrStarting) {
		t.Errorf("a second start: %v", err)
	}
	if ok, err := executor.Forbid(dir); !ok || err != nil {
		t.Fatal(ok, err)
	}
	reader, err := os.OpenFile(fifo, os.O_RDWR, 0) // now it may go on
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	_ = cmd.Wait()
	if _, err := os.Stat(ran); err == nil {
		t.Error("the command ran")
	}
	if ok, err := executor.Forbid(dir); ok || err != nil {
		t.Error("forbade twice")
	}
}

func TestAttach_FindsWhatADesertedExecutorStarted(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	if err := os.WriteFile(out, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := deserted(t, dir, executor.Spec{Path: "/bin/sh", Args: []string{"-c", "exit 9"}, Stdout: out, Dir: dir})
	var p *executor.Process
	eventually(t, "command", func() (ok bool) {
		var err error
		p, err = executor.Attach(dir)
		return err == nil
	})
	if exit := (run{Process: p}).wait(t); exit.Code != 9 {
		t.Errorf("got %+v", exit)
	}
	_ = cmd.Wait()
}

func TestWait_KillsTheCommandWhoseDirectoryIsGone(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		r := shell(t, `setsid sleep 1000 & echo child=$!; sleep 1000`)
		child := r.number(t, "child")
		if err := os.RemoveAll(r.dir); err != nil {
			t.Fatal(err)
		}
		again := run{Process: r.Process}
		if stopped {
			if err := r.Stop(syscall.SIGTERM, time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		if exit := again.wait(t); exit.Code != 137 || !strings.Contains(exit.Error, "state directory") {
			t.Errorf("got %+v", exit)
		}
		eventually(t, "dead command", func() bool { return dead(r.Started.PID) && (len(r.Started.Groups) == 0 || dead(child)) })
	}
}

func TestExit_IsRecordedOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=128k"); err != nil {
		t.Skipf("SKIPPED: can't mount a small disk: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	spec := executor.Spec{
		Path: "/bin/sh", Args: []string{"-c", "cat /dev/zero > full; exit 6"}, Dir: dir,
		Env: []string{"PATH=" + os.Getenv("PATH")},
	}
	p, err := executor.Start(t.Context(), []string{os.Args[0], "executor"}, dir, spec)
	if err != nil {
		t.Fatal(err)
	}
	if exit := (run{Process: p}).wait(t); exit.Code != 6 || exit.Error != "" {
		t.Errorf("got %+v", exit)
	}
	again := t.TempDir()
	if err := syscall.Mount("tmpfs", again, "tmpfs", 0, "size=4k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(again, syscall.MNT_DETACH) })
	if _, err := executor.Start(t.Context(), []string{os.Args[0], "executor"}, again, spec); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("without room: %v", err)
	}
}

func TestWait_KillsWhatIsLeftByItsControlGroups(t *testing.T) {
	r := shell(t, `(setsid sleep 1000 & echo child=$!); sleep 1000`)
	child := r.number(t, "child")
	if len(r.Started.Groups) == 0 {
		t.Skip("SKIPPED: this machine does not permit control groups")
	}
	// An executor killed between fork and record leaves its mark only.
	if err := os.Remove(filepath.Join(r.dir, "started.json")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(parent(t, r.Started.PID), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	var again *executor.Process
	eventually(t, "dead executor", func() (ok bool) {
		var err error
		again, err = executor.Attach(r.dir)
		return err == nil
	})
	if exit := (run{Process: again}).wait(t); exit.Code != 137 {
		t.Errorf("got %+v", exit)
	}
	eventually(t, "dead child", func() bool { return dead(child) })
	for _, group := range r.Started.Made {
		if _, err := os.Stat(group); err == nil {
			t.Errorf("left %s", group)
		}
	}
}

func TestStop_OutrunsWhatForks(t *testing.T) {
	hop := filepath.Join(t.TempDir(), "hop")
	// Each process starts its successor in a session of its own and goes.
	if err := os.WriteFile(hop, []byte("#!/bin/sh\nsetsid $0 &\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	r := shell(t, fmt.Sprintf("%s & %s & echo ready; sleep 1000", hop, hop))
	if len(r.Started.Groups) == 0 {
		t.Skip("SKIPPED: this machine does not permit control groups")
	}
	r.says(t, "ready")
	if err := r.Stop(syscall.SIGKILL, 0); err != nil {
		t.Fatal(err)
	}
	r.wait(t)
	for _, group := range r.Started.Groups {
		if left, _ := os.ReadFile(filepath.Join(group, "cgroup.procs")); len(left) > 0 {
			t.Errorf("%s holds %q", group, left)
		}
	}
}

func TestExecutor_KeepsNothingOfClientsThatHaveGone(t *testing.T) {
	r := shell(t, "sleep 1000")
	open := func() int {
		fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", parent(t, r.Started.PID)))
		if err != nil {
			t.Fatal(err)
		}
		return len(fds)
	}
	before := open()
	for range 10 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if _, err := r.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		cancel()
	}
	eventually(t, "closed connections", func() bool { return open() <= before })
}

func TestStop_WorksBesideASpammer(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	r := shell(t, "cat /dev/zero", func(s *executor.Spec) { s.Stdout = fifo })
	if _, err := io.CopyN(io.Discard, reader, 64<<20); err != nil {
		t.Fatal(err)
	}
	// The FIFO is full from now on, and the command sits in its write.
	if err := r.Stop(syscall.SIGTERM, time.Second); err != nil {
		t.Fatal(err)
	}
	if exit := r.wait(t); exit.Signal != int(syscall.SIGTERM) {
		t.Errorf("got %+v", exit)
	}
}

func TestStartBeside_SurvivesTheEndOfTheCommand(t *testing.T) {
	// A thread that forks into the command's groups must not be killed with them:
	// on separate hierarchies that would kill this process.
	for range 8 {
		r := shell(t, "sleep 1000")
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for {
				cmd := exec.Command("/bin/true")
				cmd.SysProcAttr = &syscall.SysProcAttr{}
				if r.StartBeside(cmd, "") != nil {
					return
				}
				_ = cmd.Wait()
			}
		}()
		if err := r.Stop(syscall.SIGKILL, 0); err != nil {
			t.Fatal(err)
		}
		r.wait(t)
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			t.Fatal("a command that is over has visitors")
		}
	}
}
