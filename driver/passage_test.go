package driver_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/driver"
	"github.com/psgrid/psg/driver/executor"
	"github.com/psgrid/psg/hclspec"
)

func TestGate_WritesWhatWasGranted(t *testing.T) {
	c := newController()
	n := newNode(t, c)
	n.start(n.task(hclspec.Stanza{}))
	c.grants(psg.DeviceShare{Device: "GPU-1"}, psg.DeviceShare{Device: "GPU-2"})
	if exit := n.wait("a1/web/1"); exit != (executor.Exit{}) {
		t.Errorf("got %+v", exit)
	}
	eventually(t, "event", n.said("granted on host-1, devices GPU-1, GPU-2"))
	path := filepath.Join(n.allocDir, "alloc", "psg", "grant.env")
	data, err := os.ReadFile(path)
	want := "PSG_ALLOC=a1\nPSG_NODE=node-1\nPSG_NODE_NAME=host-1\nPSG_GRANT=granted\nPSG_DECISION=3-9\nNVIDIA_VISIBLE_DEVICES=GPU-1,GPU-2\n"
	if err != nil || string(data) != want {
		t.Errorf("got %q, %v", data, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	asked := c.asks()[0]
	if asked.ID != "a1" || asked.Alloc != "a1" || asked.Node != "node-1" || asked.Workload.Group != "group" || asked.At.IsZero() {
		t.Errorf("asked %+v", asked)
	}
}

func TestGate_StopsAtOnce(t *testing.T) {
	n := newNode(t, newController())
	n.start(n.task(shell("true")))
	began := time.Now()
	if err := n.Stop(t.Context(), "a1/web/1", syscall.SIGTERM, time.Minute); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 100*time.Millisecond {
		t.Errorf("took %v", took)
	}
	if exit := n.wait("a1/web/1"); exit.Signal != 15 || exit.Code != 143 {
		t.Errorf("got %+v", exit)
	}
}

func TestGate_RefusesOrdersThatAreNotForIt(t *testing.T) {
	for want, order := range map[string]psg.Order{
		"waiting: no controller answers: order of epoch 2 after one of 3": {Kind: psg.Grant, Epoch: 2, Node: "node-1"},
		"elsewhere: planned on node-2":                                    {Kind: psg.Grant, Epoch: 3, Node: "node-2"},
	} {
		c := newController()
		n := newNode(t, c)
		c.grants()
		first := n.task(hclspec.Stanza{})
		first.ID = "a0/web/0"
		n.start(first)
		n.wait(first.ID)
		c.says(&order, nil)
		n.start(n.task(hclspec.Stanza{}))
		eventually(t, want, n.said(want))
		if s, err := n.Inspect("a1/web/1"); err != nil || s.Exit != nil {
			t.Errorf("%s: got %+v, %v", want, s, err)
		}
	}
}

func TestFailOpen_IsReportedWhenTheControllerIsBack(t *testing.T) {
	for name, stateDir := range map[string]string{"same driver": "", "next driver": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			c := newController()
			c.says(nil, errDown)
			n := newNode(t, c, func(p *hclspec.Plugin) {
				p.Fail, p.FailAfter, p.StateDir = hclspec.FailOpen, 50*time.Millisecond, stateDir
			})
			n.start(n.task(hclspec.Stanza{}))
			if exit := n.wait("a1/web/1"); exit.Code != 0 {
				t.Errorf("got %+v", exit)
			}
			eventually(t, "event", n.said("started without a decision"))
			if !contains(filepath.Join(n.allocDir, "alloc/psg/grant.env"), "PSG_GRANT=open")() {
				t.Error("no grant file")
			}
			if stateDir != "" {
				if err := n.Close(); err != nil {
					t.Fatal(err)
				}
				n.open(c)
			}
			before := len(c.asks())
			c.grants()
			eventually(t, "report", n.said("reported to the controller, which says: granted on node-1"))
			if asks := c.asks(); len(asks) <= before || asks[len(asks)-1].Alloc != "a1" || !asks[len(asks)-1].Started {
				t.Errorf("asked %+v", asks)
			}
			if stateDir != "" {
				eventually(t, "forgotten report", func() bool {
					left, err := filepath.Glob(filepath.Join(stateDir, "unreported", "*"))
					return err == nil && len(left) == 0
				})
			}
		})
	}
}

func TestDriver_RefusesWhatItDoesNotKnow(t *testing.T) {
	d := driver.New(nil, slog.New(slog.DiscardHandler))
	if _, err := d.Start(driver.Task{}); !errors.Is(err, driver.ErrNotConfigured) {
		t.Errorf("start: %v", err)
	}
	if err := d.Signal("x", syscall.SIGTERM); !errors.Is(err, driver.ErrTaskNotFound) {
		t.Errorf("signal: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if err := d.Configure(driver.Config{}, newController()); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("configure: %v", err)
	}
}
