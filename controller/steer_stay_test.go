package controller

import (
	"context"
	"strings"
	"testing"

	"github.com/psgrid/psg"
)

// asksFor asks for moves off n1 while cycles run.
func (w *world) asksFor(ctx context.Context, to Orchestrator, r psg.Rebalance) (psg.Rebalanced, error) {
	w.Helper()
	w.steers.open(to)
	defer w.steers.close()
	type answer struct {
		psg.Rebalanced
		err error
	}
	answered := make(chan answer, 1)
	go func() {
		done, err := w.Rebalance(ctx, r)
		answered <- answer{done, err}
	}()
	for {
		select {
		case got := <-answered:
			return got.Rebalanced, got.err
		default:
			w.cycle()
		}
	}
}

func TestRebalance_SaysWhyWhatIsToLeaveStays(t *testing.T) {
	all := psg.Rebalance{Node: "n1", Empty: true}
	for name, one := range map[string]struct {
		spoil func(*world, *director)
		ask   psg.Rebalance
		stay  int
		why   string
	}{
		"one may be down": {func(*world, *director) {}, all, 2, "no more of the group's instances may be down now"},
		"no room":         {func(w *world, _ *director) { w.report(psg.NodeGone{Node: "n2"}) }, all, 3, "no other node has room"},
		"a deployment runs": {func(_ *world, d *director) {
			d.refuse = psg.ErrBusy
		}, all, 3, "busy"},
		"policy protects it": {func(w *world, _ *director) { w.policy = always(protecting{w.policy(), "web"}) }, all, 3, "it is protected: "},
		"it does not run yet": {func(w *world, _ *director) {
			low := workload("low", "batch", 64)
			low.Count, low.Version = 1, 1
			w.report(psg.WorkloadChanged{Workload: low})
			w.cycle()
			w.place(0, gate(low, "a1", "n1"))
		}, all, 3, "it is granted: what does not run yet is not moved"},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := spread3(t)
			nomad := &director{}
			one.spoil(w, nomad)
			done, err := w.asksFor(t.Context(), nomad, one.ask)
			if err != nil || len(done.Stays) != one.stay {
				t.Fatalf("%+v, %v; want %d that stay", done.Stays, err, one.stay)
			}
			told := false
			for i, s := range done.Stays {
				told = told || strings.Contains(s.Reason, one.why) && s.Alloc != ""
				if i > 0 && done.Stays[i-1].Alloc >= s.Alloc && done.Stays[i-1].Workload == s.Workload {
					t.Errorf("%+v are not in order", done.Stays)
				}
			}
			if !told {
				t.Errorf("%+v, want %q among the reasons", done.Stays, one.why)
			}
		})
	}
}

// TestRebalance_IsNotInterruptedByACallerWhoLeaves has the caller go away between
// the hint and the stop.
func TestRebalance_IsNotInterruptedByACallerWhoLeaves(t *testing.T) {
	for name, first := range map[string]bool{"stop first": false, "others first": true} {
		t.Run(name, func(t *testing.T) {
			w, _ := spread3(t)
			if first {
				w, _ = shiftable3(t, nil)
			}
			ctx, leave := context.WithCancel(t.Context())
			nomad := &honest{director{shift: psg.ShiftRuns}}
			nomad.onSteer = func(psg.Steering) { leave() }
			done, err := w.asksFor(ctx, nomad, psg.Rebalance{Node: "n1", Empty: true})
			steered, stopped := nomad.told()
			if len(done.Orders) == 0 || len(steered) != 1 || !first && len(stopped) != 1 {
				t.Errorf("%+v, %v; steered %v, stopped %v: want the move that was begun carried out, and no other begun", done, err, steered, stopped)
			}
		})
	}
}

// honest is a director that carries out nothing whose context is over.
type honest struct{ director }

func (h *honest) Steer(ctx context.Context, s psg.Steering, leads func() error) (bool, error) {
	changed, err := h.director.Steer(ctx, s, leads)
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	return changed, err
}

func (h *honest) Stop(ctx context.Context, alloc psg.AllocID) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return h.director.Stop(ctx, alloc)
}
