package driver_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/driver"
)

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
	s, err := n.Inspect(task.ID)
	if err != nil {
		t.Fatal(err)
	}
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", s.PID))
	if err != nil {
		t.Fatal(err)
	}
	if out, _, _, err := n.Exec(t.Context(), task.ID, []string{"cat", "/proc/self/cgroup"}, 0); err != nil || string(out) != string(groups) {
		t.Errorf("control groups %s, the task's are %s, %v", out, groups, err)
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
