package controller

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

// atMost asks for at most so many moves while cycles run.
func (w *world) atMost(to Orchestrator, most int) []psg.Order {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 20*time.Second)
	defer cancel()
	w.steers.open(to)
	defer w.steers.close()
	type answer struct {
		psg.Rebalanced
		err error
	}
	answered := make(chan answer, 1)
	go func() {
		done, err := w.Rebalance(ctx, psg.Rebalance{Node: "n1", Empty: true, Max: most})
		answered <- answer{done, err}
	}()
	for {
		select {
		case got := <-answered:
			if got.err != nil {
				w.Error(got.err)
			}
			return got.Orders
		default:
			w.cycle()
		}
	}
}

func TestRebalance_NeverBeginsMoreThanAreAskedFor(t *testing.T) {
	first := &psg.Disruption{Order: psg.StartFirst, MaxUnavailable: 1}
	for name, one := range map[string]struct {
		disruption *psg.Disruption
		most       int
		orders     int
		kind       psg.OrderKind
	}{
		"as many as move together":           {nil, 3, 3, psg.Steer},
		"fewer, in the other order":          {nil, 2, 1, psg.Stop}, // one instance may be down
		"fewer, but others must start first": {first, 2, 0, ""},
		"nobody says how many":               {first, 0, 3, psg.Steer},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := shiftable3(t, one.disruption)
			orders := w.atMost(&director{shift: psg.ShiftRuns}, one.most)
			if len(orders) != one.orders || len(orders) > 0 && orders[0].Kind != one.kind {
				t.Errorf("%d orders %+v, want %d %s", len(orders), orders, one.orders, one.kind)
			}
		})
	}
}

func TestRebalance_LeavesAGroupThatMovesTogetherForTheNextTime(t *testing.T) {
	w, web := shiftable3(t, nil)
	low := workload("low", "batch", 64)
	low.Priority, low.Count, low.Version = web.Priority-1, 2, 1
	w.report(psg.WorkloadChanged{Workload: low})
	w.cycle()
	w.place(0, gate(low, "l1", "n1"))
	w.report(psg.Moved{Ask: "l1", State: psg.Running, At: start})
	low.Count = 1
	w.report(psg.WorkloadChanged{Workload: low})
	w.cycle()
	nomad := &director{shift: psg.ShiftRuns}
	if orders := w.atMost(nomad, 3); len(orders) != 1 || orders[0].Alloc != "l1" {
		t.Fatalf("orders %+v, want the one of low priority, and the three that move together left", orders)
	}
	if orders := w.atMost(nomad, 3); len(orders) != 3 || orders[0].Kind != psg.Steer {
		t.Errorf("orders %+v, want the three", orders)
	}
}

func TestRebalance_BoundsHowManyWait(t *testing.T) {
	w, _ := spread3(t)
	w.steers.open(&director{})
	defer w.steers.close()
	done, err := w.steers.turn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, maxRebalances)
	for range maxRebalances {
		go func() {
			_, err := w.Rebalance(ctx, psg.Rebalance{Node: "n1", Empty: true})
			ended <- err
		}()
	}
	if err := <-ended; !errors.Is(err, psg.ErrBusy) { // the others wait
		t.Errorf("one too many: %v", err)
	}
	cancel()
	for range maxRebalances - 1 {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("one that waited: %v", err)
		}
	}
	done()
	if done, err = w.steers.turn(t.Context()); err != nil {
		t.Fatalf("when all have gone: %v", err)
	}
	done()
}

// No cycle runs: no room is ever reserved.
func TestRebalance_EndsInTime(t *testing.T) {
	w, _ := spread3(t)
	w.steers.open(&director{})
	defer w.steers.close()
	w.steers.within = 20 * time.Millisecond
	done, err := w.Rebalance(t.Context(), psg.Rebalance{Node: "n1", Empty: true})
	if err != nil || len(done.Orders) > 0 {
		t.Errorf("%+v, %v; want no moves, and no error", done, err)
	}
	w.cycle()
	w.cycle()
	if n := w.count(psg.Running); n != 3 || w.reserved(movePrefix) != nil {
		t.Errorf("%d run: %v; want three, and nothing reserved", n, w.standing())
	}
}

// TestRebalance_MovesNothingToWhatIsBeingEmptied: two nodes would exchange what they
// hold for as long as somebody asks.
func TestRebalance_MovesNothingToWhatIsBeingEmptied(t *testing.T) {
	w, _ := spread3(t)
	for _, one := range []struct {
		node  psg.NodeID
		later time.Duration // than the request before
		moves int
	}{{"n2", 0, 0}, {"n1", 0, 0}, {"n2", 0, 0}, {"n1", emptyFor + time.Second, 1}} {
		w.steers.mu.Lock()
		for node, at := range w.steers.emptied {
			w.steers.emptied[node] = at.Add(-one.later)
		}
		w.steers.mu.Unlock()
		if orders, err := w.rebalanced(&director{}, one.node); err != nil || len(orders) != one.moves {
			t.Errorf("%s: orders %+v, %v; want %d moves", one.node, orders, err, one.moves)
		}
	}
}
