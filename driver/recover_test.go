package driver_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/driver/executor"
	"github.com/psgrid/psg/hclspec"
)

func TestRecover_FindsWhatIsThere(t *testing.T) {
	c := newController()
	n := newNode(t, c)
	task := n.task(shell(`echo run >> runs; while [ ! -e go ]; do sleep 0.01; done; exit 6`))
	h := n.start(task)
	next := func() {
		t.Helper()
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		n.open(c)
		if err := n.Recover(task, h); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "ask", func() bool { return len(c.asks()) == 1 })
	next() // at its gate
	eventually(t, "second ask", func() bool { return len(c.asks()) == 2 })
	if asks := c.asks(); !asks[0].At.Equal(asks[1].At) {
		t.Errorf("first submitted at %v, then %v", asks[0].At, asks[1].At)
	}
	c.grants()
	runs := filepath.Join(n.allocDir, "web", "runs")
	eventually(t, "command", contains(runs, "run"))
	next() // its command runs
	if s, err := n.Inspect(task.ID); err != nil || s.PID == 0 {
		t.Errorf("got %+v, %v", s, err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(n.allocDir, "web", "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	eventually(t, "end while no driver is there", func() bool {
		_, over, _ := executor.ReadExit(h.Dir)
		return over
	})
	n.open(c)
	if err := n.Recover(task, h); err != nil { // it has ended
		t.Fatal(err)
	}
	if exit := n.wait(task.ID); exit.Code != 6 {
		t.Errorf("got %+v", exit)
	}
	if data, _ := os.ReadFile(runs); string(data) != "run\n" {
		t.Errorf("ran %q", data)
	}
	if err := n.Destroy(t.Context(), task.ID, false); err != nil {
		t.Fatal(err)
	}
	if err := n.Recover(task, h); err == nil || !strings.Contains(err.Error(), "no record of the task") {
		t.Errorf("recovering a destroyed task: %v", err)
	}
}

func TestRecover_DoesNotRepeatWhatWasSaid(t *testing.T) {
	c := newController()
	n := newNode(t, c)
	task := n.task(hclspec.Stanza{})
	h := n.start(task)
	c.says(&psg.Order{Kind: psg.Wait, Refusal: &psg.Refusal{State: psg.Queued, Summary: "no room"}}, nil)
	eventually(t, "event", n.said("queued: no room"))
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	n.events = nil
	n.open(c)
	if err := n.Recover(task, h); err != nil {
		t.Fatal(err)
	}
	c.grants()
	n.wait(task.ID)
	eventually(t, "event", n.said("granted"))
	if n.said("queued")() {
		t.Errorf("said %q", n.events)
	}
}
