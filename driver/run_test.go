package driver_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/driver"
	"github.com/psgrid/psg/hclspec"
)

func TestRun_StartsBehindTheGateWithItsCards(t *testing.T) {
	c := newController()
	n := newNode(t, c)
	n.start(n.task(shell(`echo $GREETING $NVIDIA_VISIBLE_DEVICES; pwd; echo oops >&2; exit 4`)))
	if _, err := n.Driver.Inspect("a1/web/1"); err != nil {
		t.Fatal(err)
	}
	c.grants(psg.DeviceShare{Device: "GPU-7"})
	if exit := n.wait("a1/web/1"); exit.Code != 4 {
		t.Errorf("got %+v", exit)
	}
	data, _ := os.ReadFile(n.file("stdout"))
	if want := "hello GPU-7\n" + filepath.Join(n.allocDir, "web") + "\n"; string(data) != want {
		t.Errorf("stdout %q, want %q", data, want)
	}
	if !contains(n.file("stderr"), "oops")() {
		t.Error("nothing on stderr")
	}
}

func TestRun_SaysWhyACommandCannotStart(t *testing.T) {
	c := newController()
	c.grants()
	n := newNode(t, c)
	n.start(n.task(hclspec.Stanza{Command: "no-such-program"}))
	exit := n.wait("a1/web/1")
	if exit.Code == 0 || !strings.Contains(exit.Error, `"no-such-program" not found`) {
		t.Errorf("got %+v", exit)
	}
	eventually(t, "event", n.said("cannot start: "))
}

func TestRun_StopAndSignal(t *testing.T) {
	c := newController()
	c.grants()
	n := newNode(t, c)
	task := n.task(shell(`trap "echo usr" USR1; trap "" TERM; echo ready; while :; do sleep 0.02; done`))
	n.start(task)
	n.runs(task.ID, "ready")
	if err := n.Signal("a1/web/1", syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	eventually(t, "signal", contains(n.file("stdout"), "usr"))
	if err := n.Stop(t.Context(), "a1/web/1", syscall.SIGTERM, 100*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if exit := n.wait("a1/web/1"); exit.Code != 137 || exit.Signal != 9 {
		t.Errorf("got %+v", exit)
	}
}

func TestStats_FollowTheCommand(t *testing.T) {
	c := newController()
	c.grants()
	n := newNode(t, c)
	task := n.task(shell("while :; do :; done"))
	n.start(task)
	enough := errors.New("enough")
	err := n.Stats(t.Context(), task.ID, 100*time.Millisecond, func(u driver.Usage) error {
		if u.UserPercent > 1 && u.RSS > 0 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Errorf("got %v", err)
	}
}
