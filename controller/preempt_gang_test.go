package controller

import (
	"slices"
	"strings"
	"testing"

	"github.com/psgrid/psg"
)

// crowded is a world whose nodes n1 and n2 are filled by one low allocation each,
// l1 and l2, and a gang of two that wants all of a node for each.
func crowded(t *testing.T) (*world, psg.Workload) {
	low, high, late := lowly("low", 4096), urgent("high", 4096), workload("late", "service", 4096)
	high.Count, high.Gang = 2, "g"
	w := newWorld(t, tempLog(t), jobs{low.ID: low, high.ID: high, late.ID: late})
	w.report(psg.NodeChanged{Node: testNode("n1")}, psg.NodeChanged{Node: testNode("n2")})
	w.place(0, gate(low, "l1", "n1"), gate(low, "l2", "n2"))
	w.report(psg.Moved{Ask: "l1", State: psg.Running, At: start}, psg.Moved{Ask: "l2", State: psg.Running, At: start})
	return w, high
}

func (w *world) over(id psg.RequestID) { w.report(psg.Freed{Ask: id, State: psg.Released, At: start}) }

func stopped(orders []psg.Order) []psg.AllocID {
	var allocs []psg.AllocID
	for _, order := range orders {
		allocs = append(allocs, order.Alloc)
	}
	slices.Sort(allocs)
	return allocs
}

func TestPreempt_AGangStartsWhenAllHaveMadeWay(t *testing.T) {
	w, high := crowded(t)
	w.place(0, gate(high, "u1", "n1"), gate(high, "u2", "n2"))
	got := w.preempts("u2", "", 0)
	if got.err != nil || got.refused != nil || !slices.Equal(stopped(got.orders), []psg.AllocID{"l1", "l2"}) {
		t.Fatalf("%+v, want both stopped", got)
	}
	if other := w.preempts("u1", "", 0); len(other.orders) != 2 || len(w.Controller.state.Waiting()) != 2 {
		t.Errorf("asked for the other member: %+v", other)
	}
	if stopped := w.evicted(&director{}, 2); len(stopped) != 2 {
		t.Errorf("stopped %v, want each once", stopped)
	}
	w.over("l1")
	w.cycle()
	w.cycle()
	for _, id := range []psg.RequestID{"u1", "u2"} {
		if order, _ := orderFor(w.Controller.state.Ask(id), 1); order.Kind != psg.Wait || w.state(id) != psg.Queued {
			t.Fatalf("with l2 still there %s is told %+v", id, order)
		}
	}
	w.over("l2")
	w.cycle()
	w.cycle()
	for id, node := range map[psg.RequestID]psg.NodeID{"u1": "n1", "u2": "n2"} {
		if order, _ := orderFor(w.Controller.state.Ask(id), 1); order.Kind != psg.Grant || order.Node != node {
			t.Errorf("%s: %+v, want it to start on %s", id, order, node)
		}
	}
	if room := w.reserved(steerPrefix); room != nil {
		t.Errorf("%+v is held still", room)
	}
	w.checkLog()
}

func TestPreempt_AGangIsGivenUpAsAWhole(t *testing.T) {
	for name, spoil := range map[string]func(*world){
		"did not end within": func(w *world) { w.now = w.now.Add(preemptWithin) },
		"is not ready": func(w *world) {
			n := testNode("n2")
			n.Version, n.Ready = 2, false
			w.report(psg.NodeChanged{Node: n})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, high := crowded(t)
			w.place(0, gate(high, "u1", "n1"), gate(high, "u2", "n2"))
			if got := w.preempts("u1", "", 0); len(got.orders) != 2 {
				t.Fatalf("%+v", got)
			}
			w.over("l1")
			spoil(w)
			w.cycle()
			w.cycle()
			if left := w.Controller.state.Waiting(); len(left) > 0 || w.reserved(steerPrefix) != nil || w.inWay("l2") {
				t.Errorf("%v wait still, and %+v is held", left, w.reserved(steerPrefix))
			}
			for _, id := range []psg.RequestID{"u1", "u2"} {
				if status, _ := w.Ask(id); status.Placement != nil {
					t.Errorf("%s holds %+v", id, status.Placement)
				}
			}
			w.checkLog()
		})
	}
}

// TestPreempt_AHeldGangHoldsWhatIsFreeUntilThereIsRoomForAll has one member fit as
// it is, on n3.
func TestPreempt_AHeldGangHoldsWhatIsFreeUntilThereIsRoomForAll(t *testing.T) {
	w, high := crowded(t)
	high.Held = true
	w.report(psg.NodeChanged{Node: testNode("n3")}, psg.WorkloadChanged{Workload: high})
	w.cycle()
	w.cycle()
	asks := w.Asks()
	at := slices.IndexFunc(asks, func(s psg.AskStatus) bool { return s.Ask.Workload == high.ID })
	got := w.preempts(asks[at].Ask.ID, "", 0)
	if len(got.orders) != 1 || got.orders[0].Alloc != "l1" {
		t.Fatalf("%+v %+v, want l1 alone stopped", got, got.refused)
	}
	if order := w.place(0, gate(workload("late", "service", 4096), "late", "n3"))[0]; order.Kind != psg.Wait {
		t.Errorf("another got the room on n3: %+v", order)
	}
	if workloads, asks := w.job(high.ID.JobID()); releasable(workloads, asks) {
		t.Error("it would start beside what is yet to end")
	}
	w.over("l1")
	w.cycle()
	if workloads, asks := w.job(high.ID.JobID()); !releasable(workloads, asks) {
		t.Errorf("it does not start: %+v", asks)
	}
	w.checkLog()
}

func TestPreempt_SaysWhyAGangIsNotHelped(t *testing.T) {
	w, high := crowded(t)
	w.place(0, gate(high, "u1", "n1"))
	if got := w.preempts("u1", "", 0); got.refused == nil || !strings.Contains(got.refused.Summary, "has 1 of 2 instances") {
		t.Errorf("%+v, want the other instance awaited", got)
	}
	w.place(0, gate(high, "u2", "n2"))
	if got := w.preempts("u1", "", 1); got.refused == nil || !strings.Contains(got.refused.Summary, "it takes 2 victims for all 2 of gang g, and at most 1 are allowed") {
		t.Errorf("%+v", got)
	}
	policy := w.policy()
	w.policy = func() Policy { return guarded{policy, psg.WorkloadID{Namespace: "default", Job: "low", Group: "main"}} }
	if got := w.preempts("u1", "", 0); got.refused == nil || !strings.Contains(got.refused.Summary, "not all 2 of gang g would fit") {
		t.Errorf("%+v", got)
	}
}
