package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

// onePerZone is a policy that reads what the cluster holds.
const onePerZone = `deny contains "one instance per zone" if {
	data.cluster.services[input.workload.service].domains[input.node.domain] > 0
}
`

// zoned is a world of nodes in zones in turn, with a gang of count that wants a
// place, and its asks.
func zoned(t *testing.T, rego string, nodes, zones, count int) (*world, psg.Workload, []psg.Ask) {
	gang := workload("gang", "training", 64)
	gang.Count, gang.Gang = count, "g"
	w := newWorld(t, tempLog(t), jobs{gang.ID: gang})
	w.ruledBy(rego)
	var facts []psg.Delta
	for i := range nodes {
		n := testNode(psg.NodeID(fmt.Sprintf("n%04d", i)))
		n.Domain = fmt.Sprint("zone-", i*zones/nodes)
		facts = append(facts, psg.NodeChanged{Node: n})
	}
	w.report(facts...)
	var asks []psg.Ask
	for i := range count {
		asks = append(asks, psg.Ask{ID: psg.RequestID(fmt.Sprintf("g%03d", i)), Workload: gang.ID, At: start, Hold: psg.MaxReservationHold})
	}
	return w, gang, asks
}

func (w *world) ask(asks []psg.Ask) {
	w.Helper()
	if err := w.submit(w.Context(), asks); err != nil {
		w.Fatal(err)
	}
}

// nodesOf are where asks hold room, each node once.
func (w *world) nodesOf(asks []psg.Ask) []psg.NodeID {
	var nodes []psg.NodeID
	for _, ask := range asks {
		if p := w.Snapshot().Placements.Of(ask.ID); p != nil {
			nodes = append(nodes, p.Node)
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

func TestCycle_AGangThatMayNotShareNodesIsSpread(t *testing.T) {
	for _, kind := range []string{"allocations", "reservations"} {
		t.Run(kind, func(t *testing.T) {
			w, gang, asks := zoned(t, onePerNode, 3, 3, 3)
			if kind == "allocations" {
				asks = []psg.Ask{gate(gang, "a1", ""), gate(gang, "a2", ""), gate(gang, "a3", "")}
			}
			w.ask(asks)
			w.cycle()
			if nodes := w.nodesOf(asks); len(nodes) != 3 {
				status, _ := w.Ask(asks[0].ID)
				t.Errorf("after one cycle it is on %v, want each on a node of its own: %+v", nodes, status.Refusal)
			}
			w.checkLog()
		})
	}
}

func TestCycle_AGangThatCannotBeSpreadIsToldWhy(t *testing.T) {
	w, _, asks := zoned(t, onePerNode, 2, 2, 3)
	w.ask(asks)
	w.cycle()
	if nodes := w.nodesOf(asks); len(nodes) > 0 {
		t.Errorf("a part of it is on %v", nodes)
	}
	nearest := 0
	for _, ask := range asks {
		status, _ := w.Ask(ask.ID)
		if status.Refusal == nil || !strings.Contains(status.Refusal.Summary, "2 of 3 fit") || !strings.Contains(status.Refusal.Summary, "one training workload per node") {
			t.Fatalf("%s: %+v", ask.ID, status.Refusal)
		}
		nearest += len(status.Refusal.Nearest)
	}
	if nearest == 0 {
		t.Error("no refusal names what was nearest")
	}
	w.report(psg.NodeChanged{Node: testNode("n9")})
	w.cycle()
	if nodes := w.nodesOf(asks); len(nodes) != 3 {
		t.Errorf("with a third node it is on %v", nodes)
	}
	w.checkLog()
}

func TestPreview_SpreadsAGangAsTheCycleDoes(t *testing.T) {
	w, gang, _ := zoned(t, onePerNode, 3, 3, 3)
	w.cycle()
	foreseen, err := w.Preview(t.Context(), []psg.Workload{gang})
	if err != nil {
		t.Fatal(err)
	}
	planned, err := w.planned("plan/1", gang)
	if err != nil {
		t.Fatal(err)
	}
	if said(foreseen) != said(planned) || len(foreseen[0].Hint) != 3 {
		t.Errorf("foreseen\n%s planned\n%s", said(foreseen), said(planned))
	}
}

func TestCycle_AGangFindsTheZonesThatAreLeft(t *testing.T) {
	w, _, asks := zoned(t, onePerZone, 1000, 3, 3)
	w.ask(asks)
	zones := func() map[int]bool {
		found := map[int]bool{}
		for _, node := range w.nodesOf(asks) {
			var i int
			_, _ = fmt.Sscanf(string(node), "n%d", &i)
			found[i*3/1000] = true
		}
		return found
	}
	for range 3 {
		if w.cycle(); len(zones()) == 3 {
			return
		}
	}
	status, _ := w.Ask(asks[0].ID)
	t.Errorf("after 3 cycles it is on %v: %+v", w.nodesOf(asks), status.Refusal)
}

// late is a policy that takes longer for one ruling than a cycle has for a gang.
type late struct{ Policy }

func (l late) Rule(ctx context.Context, w *psg.Workload, view *psg.Snapshot) (psg.Ruling, error) {
	select {
	case <-time.After(mendFor/minMends + time.Millisecond):
	case <-ctx.Done():
	}
	return l.Policy.Rule(ctx, w, view)
}

// TestCycle_GoesOnWithAGangWhereTheLastLeftIt has one cycle manage no more than a
// part of a gang.
func TestCycle_GoesOnWithAGangWhereTheLastLeftIt(t *testing.T) {
	const count = 2*minMends + 2
	w, _, asks := zoned(t, onePerNode, count, 1, count)
	rules := w.policy()
	w.policy = always(late{rules})
	w.ask(asks)
	cycles := 0
	for done := 0; cycles < count && len(w.nodesOf(asks)) == 0; cycles++ {
		w.cycle()
		for _, on := range w.trails {
			if len(on) <= done {
				t.Errorf("cycle %d came to %d members, the one before to %d", cycles, len(on), done)
			}
			done = len(on)
		}
	}
	if nodes := w.nodesOf(asks); len(nodes) != count || cycles < 2 {
		t.Errorf("after %d cycles it is on %v", cycles, nodes)
	}
	if len(w.trails) > 0 {
		t.Errorf("%v is remembered", w.trails)
	}
	w.checkLog()
}

// TestCycle_GroupsOfOneJobFindTheZonesThatAreLeft is a job of many groups, no gang,
// which policy keeps apart.
func TestCycle_GroupsOfOneJobFindTheZonesThatAreLeft(t *testing.T) {
	const groups = 22
	w, gang, _ := zoned(t, onePerZone, 2*groups, groups, 2)
	var asks []psg.Ask
	var known []psg.Delta
	for i := range groups + 1 {
		group := gang
		group.ID.Job, group.ID.Group, group.Gang, group.Count = "many", fmt.Sprintf("g%02d", i), "", 1
		known = append(known, psg.WorkloadChanged{Workload: group})
		asks = append(asks, psg.Ask{ID: psg.RequestID(fmt.Sprintf("m%02d", i)), Workload: group.ID, At: start, Hold: psg.MaxReservationHold})
	}
	w.report(known...)
	w.cycle()
	w.ask(asks)
	cycles := 0
	for ; cycles < groups/2 && w.state(asks[groups].ID) != psg.Denied; cycles++ {
		w.cycle()
	}
	status, _ := w.Ask(asks[groups].ID)
	if nodes := w.nodesOf(asks); len(nodes) != groups || status.Refusal == nil || !strings.Contains(status.Refusal.Summary, "one instance per zone") {
		t.Errorf("after %d cycles they are on %d nodes, and the last is %s: %+v", cycles, len(nodes), status.State, status.Refusal)
	}
	w.checkLog()
}

// TestCycle_AGangsTurnComesWhenTheOneBeforeItIsGone: another gang was left half done,
// and has ended since.
func TestCycle_AGangsTurnComesWhenTheOneBeforeItIsGone(t *testing.T) {
	w, _, asks := zoned(t, onePerNode, 3, 3, 3)
	w.trails = map[psg.GangID]trail{"gone": {"x": "n0000"}}
	w.ask(asks)
	w.cycle()
	if status, _ := w.Ask(asks[0].ID); status.State == psg.Denied {
		t.Errorf("before its turn it is denied: %+v", status.Refusal)
	}
	w.cycle()
	if nodes := w.nodesOf(asks); len(nodes) != 3 || len(w.trails) > 0 {
		t.Errorf("it is on %v, and %v is remembered", nodes, w.trails)
	}
	w.checkLog()
}

// TestCycle_AGangThatCannotGoOnIsToldWhy: one member, which is mended first, is
// drawn to the only node that has room for the other.
func TestCycle_AGangThatCannotGoOnIsToldWhy(t *testing.T) {
	w, small, _ := zoned(t, onePerZone, 0, 1, 1)
	large := small
	large.ID.Group, large.Priority, large.Request[psg.Memory] = "large", small.Priority+1, 4096
	small.Affinities = []psg.Affinity{{Constraint: psg.Constraint{Left: "${node.class}", Operator: psg.Equal, Right: "large"}, Weight: 100}}
	n1, n2 := testNode("n1"), testNode("n2")
	n1.Class, n1.Domain, n2.Domain = "large", "zone", "zone"
	n2.Capacity[psg.Memory] = 2048
	w.report(psg.NodeChanged{Node: n1}, psg.NodeChanged{Node: n2}, psg.WorkloadChanged{Workload: small}, psg.WorkloadChanged{Workload: large})
	w.cycle()
	asks := []psg.Ask{
		{ID: "a", Workload: small.ID, At: start, Hold: psg.MaxReservationHold},
		{ID: "b", Workload: large.ID, At: start, Hold: psg.MaxReservationHold},
	}
	w.trails = map[psg.GangID]trail{"g": {"a": "n1"}}
	w.ask(asks)
	w.cycle()
	for _, ask := range asks {
		if status, _ := w.Ask(ask.ID); status.Placement != nil || status.Refusal == nil || !strings.Contains(status.Refusal.Summary, "gang g waits") {
			t.Errorf("%s: %+v", ask.ID, status)
		}
	}
	w.checkLog()
}
