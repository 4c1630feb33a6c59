package placement

import (
	"slices"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

// gate is the ask of an allocation that waits on a node.
func gate(w psg.Workload, id string, node psg.NodeID) psg.Ask {
	return psg.Ask{ID: psg.RequestID(id), Workload: w.ID, Alloc: psg.AllocID(id), Node: node, At: at}
}

// hold is the ask for a reservation.
func hold(w psg.Workload, id string) psg.Ask {
	return psg.Ask{ID: psg.RequestID(id), Workload: w.ID, At: at, Hold: time.Minute}
}

func TestSolve_ReservationHoldsUntilItExpires(t *testing.T) {
	w := plainWorkload("web", 1)
	plan := newCluster(Config{}, w, plainNode("n1")).solve(hold(w, "r1"))
	wantPlaced(t, plan, 1)
	if p := plan.Placements[0]; p.State != psg.Reserved || !p.Expires.Equal(at.Add(time.Minute)) {
		t.Errorf("%s until %s", p.State, p.Expires)
	}
}

func TestSolve_GatedAskTakesReservedRoom(t *testing.T) {
	w := plainWorkload("web", 2)
	w.Request[psg.CPU] = 3000 // twice does not fit
	c := newCluster(Config{}, w, plainNode("n1"))
	wantPlaced(t, c.commit(hold(w, "r1")), 1)
	plan := c.commit(gate(w, "alloc1", "n1"))
	wantPlaced(t, plan, 1)
	if !slices.Equal(plan.Consumed, []psg.RequestID{"r1"}) {
		t.Errorf("consumed %v", plan.Consumed)
	}
	if p := plan.Placements[0]; p.State != psg.Granted || !p.Expires.IsZero() {
		t.Errorf("%s until %s", p.State, p.Expires)
	}
	if free := c.rooms[0].free[psg.CPU]; free != 1000 {
		t.Errorf("%d MHz free, want 1000", free)
	}
}

func TestSolve_ExpiredReservationIsNotRedeemed(t *testing.T) {
	w := plainWorkload("web", 2)
	w.Request[psg.CPU] = 3000
	c := newCluster(Config{}, w, plainNode("n1"))
	c.commit(hold(w, "r1"))
	plan := c.Solve(Problem{Now: at.Add(2 * time.Minute), Asks: []psg.Ask{gate(w, "alloc1", "n1")}, Rows: c.rows})
	wantPlaced(t, plan, 0)
	wantSummary(t, plan, 0, psg.Queued, "no node has room: cpu_mhz short by 2000 on n1")
}

func TestSolve_RoomOfAReservationElsewhereIsGivenUp(t *testing.T) {
	w := plainWorkload("web", 1)
	c := newCluster(Config{}, w, plainNode("n1"), plainNode("n2"))
	wantPlaced(t, c.commit(hold(w, "r1")), 1) // on n1: ties break by ID
	plan := c.commit(gate(w, "alloc1", "n2"))
	wantPlaced(t, plan, 1)
	if plan.Placements[0].Node != "n2" || !slices.Equal(plan.Consumed, []psg.RequestID{"r1"}) {
		t.Errorf("on %s, consumed %v", plan.Placements[0].Node, plan.Consumed)
	}
}

func TestSolve_GatedWhereItCanNotStay(t *testing.T) {
	w, blocker := plainWorkload("web", 1), plainWorkload("blocker", 1)
	blocker.Request[psg.CPU] = 4000
	c := newCluster(Config{}, w, blocker, plainNode("n1"), plainNode("n2"))
	c.commit(gate(blocker, "b1", "n1"))

	plan := c.solve(gate(w, "alloc1", "n1"))
	wantSummary(t, plan, 0, psg.Elsewhere, "not on n1: cpu_mhz short by 500")
	if plan.Refusals[0].Node != "n2" {
		t.Errorf("planned on %s", plan.Refusals[0].Node)
	}
	wantSummary(t, c.solve(gate(w, "alloc1", "n9")), 0, psg.Elsewhere, "node n9 is not known")

	c.deny(w, "not there", "n2")
	wantSummary(t, c.solve(gate(w, "alloc1", "n1")), 0, psg.Queued, "no node has room: cpu_mhz short by 500 on n1 (nearest of 2)")
	c.deny(w, "nor there", "n1")
	wantSummary(t, c.solve(gate(w, "alloc1", "n1")), 0, psg.Denied,
		"policy denies every node: policy test: not there (nearest of 2)")
}

func TestSolve_SystemWorkloadStaysOnItsNode(t *testing.T) {
	w := plainWorkload("agent", 0)
	w.Type = psg.System
	c := newCluster(Config{}, w, plainNode("n1"), plainNode("n2"))
	c.deny(w, "no agents here", "n1")
	plan := c.solve(gate(w, "alloc1", "n1"), gate(w, "alloc2", "n2"))
	wantPlaced(t, plan, 1)
	wantSummary(t, plan, 0, psg.Denied, "not on n1: policy test: no agents here")
}

func TestSolve_GangRedeemsItsReservationsOneByOne(t *testing.T) {
	w := plainWorkload("gang", 4)
	w.Gang, w.Request[psg.CPU] = "g", 1000
	c := newCluster(Config{}, w, plainNode("n1"))
	wantPlaced(t, c.commit(hold(w, "r1"), hold(w, "r2"), hold(w, "r3")), 0)
	wantPlaced(t, c.commit(hold(w, "r1"), hold(w, "r2"), hold(w, "r3"), hold(w, "r4")), 4)
	for _, id := range []string{"a1", "a2", "a3", "a4"} {
		plan := c.commit(gate(w, id, "n1"))
		wantPlaced(t, plan, 1)
		if len(plan.Consumed) != 1 {
			t.Errorf("%s consumed %v", id, plan.Consumed)
		}
	}
	if len(c.held) != 4 {
		t.Errorf("%d placements", len(c.held))
	}
}

func TestSolve_GangOfAllocationsDoesNotCountItsReservationsTwice(t *testing.T) {
	w := plainWorkload("gang", 4)
	w.Gang = "g"
	c := newCluster(Config{}, w, plainNode("n1"))
	c.commit(hold(w, "r1"), hold(w, "r2"), hold(w, "r3"), hold(w, "r4"))
	c.Apply(psg.Freed{Ask: "r1", State: psg.Released, At: at})
	plan := c.solve(gate(w, "a1", "n1"), gate(w, "a2", "n1"))
	wantPlaced(t, plan, 0)
	wantSummary(t, plan, 0, psg.Queued, "gang g waits: default/gang/main has 3 of 4 instances")
}

func TestSolve_RepeatedAskGetsTheSameAnswer(t *testing.T) {
	w := plainWorkload("web", 1)
	c := newCluster(Config{}, w, plainNode("n1"), plainNode("n2"))
	first := c.commit(asksFor(w, 1)...)
	again := c.solve(asksFor(w, 1)...)
	if got, want := mustJSON(t, again), mustJSON(t, first); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestSolve_StopLeavesTheRestUnreached(t *testing.T) {
	w := plainWorkload("web", 3)
	c := newCluster(Config{}, w, plainNode("n1"))
	left := 2
	stop := func() bool { left--; return left < 0 }
	plan := c.Solve(Problem{Now: at, Asks: asksFor(w, 3), Rows: c.rows, Stop: stop})
	wantPlaced(t, plan, 2)
	if !slices.Equal(plan.Unreached, []psg.RequestID{"web-002"}) {
		t.Errorf("unreached %v", plan.Unreached)
	}
}

func TestSolve_RoomGivenUpIsThereForTheNextAsk(t *testing.T) {
	w, next := plainWorkload("web", 1), plainWorkload("next", 1)
	w.Request[psg.CPU], next.Request[psg.CPU], next.Priority = 3000, 3000, 1
	c := newCluster(Config{}, w, next, plainNode("n1"), plainNode("n2"))
	wantPlaced(t, c.commit(hold(w, "r1")), 1) // on n1
	plan := c.commit(gate(w, "alloc1", "n2"), gate(next, "alloc2", "n1"))
	wantPlaced(t, plan, 2)
	c.wantWithinCapacity(t)
}

func TestSolve_GrantKeepsWhatTheReservationGrewTo(t *testing.T) {
	w := plainWorkload("web", 1)
	c := newCluster(Config{}, w, plainNode("n1"))
	grown := c.solve(hold(w, "r1")).Placements[0]
	grown.Request[psg.Memory] = 4096
	c.Apply(psg.Placed{Placement: grown})
	plan := c.commit(gate(w, "alloc1", "n1"))
	wantPlaced(t, plan, 1)
	if got := plan.Placements[0].Request; got[psg.Memory] != 4096 || got[psg.CPU] != 500 {
		t.Errorf("holds %s", got)
	}
}

// TestSolve_NoPlanUsesUpAReservationThatItMakes has an instance reserve room and
// another of its workload ask for some in one cycle.
func TestSolve_NoPlanUsesUpAReservationThatItMakes(t *testing.T) {
	w := plainWorkload("web", 2)
	w.Request[psg.CPU] = 3000
	c := newCluster(Config{}, w, plainNode("n1"))
	plan := c.commit(hold(w, "r1"), gate(w, "z1", "n1"))
	if len(plan.Consumed) > 0 || len(plan.Placements) != 1 || plan.Placements[0].Ask.ID != "r1" {
		t.Errorf("%+v", plan)
	}
	c.wantWithinCapacity(t)
	if plan = c.commit(gate(w, "z1", "n1")); len(plan.Consumed) != 1 || len(plan.Placements) != 1 {
		t.Errorf("afterwards: %+v", plan)
	}
	c.wantWithinCapacity(t)
}

func TestSolve_AGangsAllocationsComeBeforeItsReservations(t *testing.T) {
	w := plainWorkload("gang", 2)
	w.Gang, w.Request[psg.CPU] = "g", 2000
	c := newCluster(Config{}, w, plainNode("n1"))
	plan := c.commit(hold(w, "h1"), hold(w, "h2"), gate(w, "z1", ""), gate(w, "z2", ""))
	wantPlaced(t, plan, 2)
	for _, p := range plan.Placements {
		if p.Ask.Alloc == "" {
			t.Errorf("%s has the room of an allocation", p.Ask.ID)
		}
	}
	wantSummary(t, plan, 0, psg.Queued, "gang: its allocations ask for room themselves")
	c.wantWithinCapacity(t)
}
