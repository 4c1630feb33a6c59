package controller

import (
	"testing"

	"github.com/psgrid/psg"
)

// drawn3 is spread3 whose instances are drawn to a node that came late.
func drawn3(t *testing.T) *world {
	web := workload("web", "service", 512)
	web.Count, web.Migrate = 3, &psg.Migrate{MaxParallel: 2}
	web.Affinities = []psg.Affinity{{
		Constraint: psg.Constraint{Left: "${node.unique.id}", Operator: psg.Equal, Right: "n2", Scope: psg.GroupScope}, Weight: 100,
	}}
	w := newWorld(t, tempLog(t), jobs{web.ID: web})
	w.report(psg.NodeChanged{Node: testNode("n1")})
	for _, alloc := range []string{"w1", "w2", "w3"} {
		w.place(0, gate(web, alloc, "n1"))
		w.report(psg.Moved{Ask: psg.RequestID(alloc), State: psg.Running, At: start})
	}
	w.report(psg.NodeChanged{Node: testNode("n2")})
	w.cycle()
	return w
}

func (w *world) improved(to Orchestrator, node psg.NodeID) []psg.Order {
	w.Helper()
	w.steers.open(to)
	answered := make(chan psg.Rebalanced, 1)
	go func() {
		done, err := w.Rebalance(w.Context(), psg.Rebalance{Node: node})
		if err != nil {
			w.Error(err)
		}
		answered <- done
	}()
	for {
		select {
		case done := <-answered:
			return done.Orders
		default:
			w.cycle()
		}
	}
}

func TestRebalance_ImprovesWhatIsBetterPlacedElsewhere(t *testing.T) {
	w := drawn3(t)
	orders := w.improved(&director{}, "n1")
	if len(orders) != 2 || orders[0].Node != "n2" || orders[1].Node != "n2" {
		t.Errorf("orders %+v, want as many moves to n2 as may be down at once", orders)
	}
}

func TestRebalance_ImprovesNothingWhereAllIsWell(t *testing.T) {
	w, _ := spread3(t)
	if orders := w.improved(&director{}, "n1"); len(orders) != 0 {
		t.Errorf("orders %+v, want none", orders)
	}
	drawn := drawn3(t)
	if orders := drawn.improved(&director{}, "n2"); len(orders) != 0 {
		t.Errorf("orders %+v off a node that holds nothing", orders)
	}
}
