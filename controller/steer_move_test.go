package controller

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

// spread3 is a world of two nodes with three instances of web running on the
// first.
func spread3(t *testing.T) (*world, psg.Workload) {
	web := workload("web", "service", 512)
	web.Count = 3
	w := newWorld(t, tempLog(t), jobs{web.ID: web})
	w.report(psg.NodeChanged{Node: testNode("n1")}, psg.NodeChanged{Node: testNode("n2")})
	for _, alloc := range []string{"w1", "w2", "w3"} {
		w.place(0, gate(web, alloc, "n1"))
		w.report(psg.Moved{Ask: psg.RequestID(alloc), State: psg.Running, At: start})
	}
	w.cycle()
	return w, web
}

// rebalanced asks while cycles and the duty run.
func (w *world) rebalanced(to Orchestrator, node psg.NodeID) ([]psg.Order, error) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 20*time.Second)
	defer cancel()
	w.steers.open(to)
	defer w.steers.close()
	type answer struct {
		orders []psg.Order
		err    error
	}
	answered := make(chan answer, 1)
	go func() {
		done, err := w.Rebalance(ctx, psg.Rebalance{Node: node, Empty: true})
		answered <- answer{done.Orders, err}
	}()
	for {
		select {
		case got := <-answered:
			return got.orders, got.err
		default:
			w.cycle()
		}
	}
}

func TestRebalance_EmptiesANodeAsFarAsItsGroupsCanSpare(t *testing.T) {
	w, web := spread3(t)
	nomad := &director{}
	nomad.onSteer = func(s psg.Steering) {
		if room := w.reserved(movePrefix); room == nil || room.Node != "n2" {
			t.Errorf("hinted before the destination was reserved: %+v", room)
		}
		if s.Supersede || s.Hints["main"]["n1"] != 2 || s.Hints["main"]["n2"] != 1 {
			t.Errorf("hinted %+v, want two instances left and one wanted on n2", s)
		}
	}
	orders, err := w.rebalanced(nomad, "n1")
	if err != nil || len(orders) != 1 || orders[0].Kind != psg.Stop || orders[0].Node != "n2" {
		t.Fatalf("orders %+v, %v; want one move: without a migrate block one instance may be down", orders, err)
	}
	moved := string(orders[0].Alloc)
	w.report(psg.Moved{Ask: psg.RequestID(moved), State: psg.Running, At: start}) // Nomad still sees it running
	w.cycle()
	if again, err := w.rebalanced(nomad, "n1"); err != nil || len(again) != 0 {
		t.Errorf("while one is down: orders %+v, %v", again, err)
	}
	w.report(psg.Freed{Ask: psg.RequestID(moved), State: psg.Released, At: start})
	if order := w.place(0, gate(web, "w4", "n2"))[0]; order.Kind != psg.Grant {
		t.Fatalf("%+v, want the new allocation granted at the destination", order)
	}
	w.report(psg.Moved{Ask: "w4", State: psg.Running, At: start})
	w.cycle()
	nomad.onSteer = nil
	if more, err := w.rebalanced(nomad, "n1"); err != nil || len(more) != 1 {
		t.Errorf("once it runs again: orders %+v, %v; want the next move", more, err)
	}
}

func TestRebalance_LeavesTheSourceWhenTheMoveCannotBeMade(t *testing.T) {
	for name, spoil := range map[string]func(*world, *director){
		"the job must not be changed": func(_ *world, d *director) { d.refuse = psg.ErrBusy },
		"no other node has room":      func(w *world, _ *director) { w.report(psg.NodeGone{Node: "n2"}) },
		"the destination is lost": func(w *world, d *director) {
			d.onSteer = func(psg.Steering) {
				room := w.reserved(movePrefix)
				w.report(psg.Freed{Ask: room.Ask.ID, State: psg.Lost, At: start})
				for now, _ := w.Ask(room.Ask.ID); !now.Over(); now, _ = w.Ask(room.Ask.ID) {
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := spread3(t)
			nomad := &director{}
			spoil(w, nomad)
			orders, err := w.rebalanced(nomad, "n1")
			w.cycle()
			if _, stopped := nomad.told(); err != nil || len(orders) > 0 || len(stopped) > 0 {
				t.Errorf("orders %+v, stopped %v, %v; want nothing", orders, stopped, err)
			}
			if n := w.count(psg.Running); n != 3 || w.reserved(movePrefix) != nil {
				t.Errorf("%d run: %v; want three, and nothing reserved", n, w.standing())
			}
		})
	}
}

func TestRebalance_SaysWhatIsWrong(t *testing.T) {
	w, _ := spread3(t)
	if _, err := w.Rebalance(t.Context(), psg.Rebalance{Node: "n1", Empty: true}); !errors.Is(err, psg.ErrUnavailable) {
		t.Errorf("without an orchestrator: %v", err)
	}
	if _, err := w.rebalanced(&director{}, "nowhere"); !errors.Is(err, psg.ErrUnknown) {
		t.Errorf("unknown node: %v", err)
	}
	w.resign()
	if _, err := w.Rebalance(t.Context(), psg.Rebalance{Node: "n1", Empty: true}); !errors.Is(err, psg.ErrNotLeader) {
		t.Errorf("without the lead: %v", err)
	}
}

func TestHeal_LooksAgainEverMoreRarely(t *testing.T) {
	web := workload("web", "service", 64)
	web.Count = 2
	w := newWorld(t, tempLog(t), jobs{web.ID: web})
	w.report(psg.NodeChanged{Node: testNode("n1")}, psg.WorkloadChanged{Workload: web})
	w.place(0, gate(web, "w1", "n1"))
	nomad := &director{}
	var missing map[psg.JobID]int
	for range 9 {
		missing = w.healMissing(t.Context(), missing, never, nomad)
	}
	if got := len(nomad.healed); got != 3 {
		t.Errorf("healed %d times in 9 looks, want 3: the second, fourth and eighth", got)
	}
	w.place(0, gate(web, "w2", "n1"))
	if left := w.healMissing(t.Context(), missing, never, nomad); len(left) != 0 {
		t.Errorf("still missing: %v", left)
	}
}
