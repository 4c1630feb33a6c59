package placement

import (
	"fmt"
	"testing"

	"github.com/psgrid/psg"
)

// onRack puts a node in a rack.
func onRack(n psg.Node, rack string) psg.Node {
	n.Attributes = map[string]string{"rack": rack}
	return n
}

// onePerRack lets a workload have one instance in each rack.
func onePerRack(w *psg.Workload) {
	w.Constraints = append(w.Constraints, psg.Constraint{Left: "${attr.rack}", Operator: psg.DistinctProperty, Right: "1"})
}

// TestImprove_MovesNothingThatCannotBeInBothPlaces: the room is reserved while the
// source runs, and counts as one more until that is gone.
func TestImprove_MovesNothingThatCannotBeInBothPlaces(t *testing.T) {
	w, big := prefers("a", "fast", 3000), prefers("big", "", 4000)
	distinct, limited := w, w
	onePerRack(&distinct)
	limited.Labels = map[string]string{"one": "yes"}
	one := Config{Limits: []psg.Limit{{Name: "one", Match: limited.Labels, Total: 1}}}
	n1, n2 := onRack(classNode("n1", "slow", 4000), "r1"), onRack(classNode("n2", "fast", 3000), "r1")
	n3 := onRack(classNode("n3", "fast", 3000), "r2")
	for name, tc := range map[string]struct {
		cfg   Config
		w     psg.Workload
		nodes []any
		moves []string
	}{
		"as it is":                           {Config{}, w, []any{n1, n2}, []string{"a n1>n2"}},
		"distinct_property":                  {Config{}, distinct, []any{n1, n2}, nil},
		"distinct_property and another rack": {Config{}, distinct, []any{n1, n2, n3}, []string{"a n1>n3"}},
		"a limit in the cluster":             {one, limited, []any{n1, n2, n3}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(tc.cfg, append(tc.nodes, tc.w, big)...)
			wantPlaced(t, c.commit(gate(tc.w, "a", "n1")), 1)
			wantMoves(t, c.improve(5), tc.moves...)
			forBig := c.MakeRoom(Problem{Now: at, Asks: []psg.Ask{hold(big, "b")}, Rows: c.rows}, 5)
			wantMoves(t, forBig, tc.moves...)
			if len(forBig.Placements) != len(tc.moves) {
				t.Errorf("%+v", forBig)
			}
		})
	}
}

// TestImprove_WaitsWhereItIsNotInTheWay: on n3 the first would be in the rack that it
// goes to in the end.
func TestImprove_WaitsWhereItIsNotInTheWay(t *testing.T) {
	a, b := prefers("a", "fast", 3000), prefers("b", "large", 4000)
	onePerRack(&a)
	c := newCluster(Config{}, a, b,
		onRack(classNode("n1", "large", 4000), "r1"), onRack(classNode("n2", "fast", 4000), "r2"),
		onRack(classNode("n3", "slow", 3000), "r2"), onRack(classNode("n4", "slow", 3000), "r3"))
	wantPlaced(t, c.commit(gate(a, "a", "n1"), gate(b, "b", "n2")), 2)
	wantMoves(t, c.improve(3), "a n1>n4", "b n2>n1", "a n4>n2")
}

// TestImprove_MovesNothingForTheSakeOfWhatIsNotThereYet: two of three may be in one
// datacenter only once the third is in another, and it is placed after the moves.
func TestImprove_MovesNothingForTheSakeOfWhatIsNotThereYet(t *testing.T) {
	w := prefers("a", "fast", 1000)
	w.Count, w.MinDomains = 3, 2
	other := classNode("n3", "fast", 1000)
	other.Datacenter = "dc2"
	c := newCluster(Config{}, w, classNode("n1", "slow", 2000), classNode("n2", "fast", 1000), other)
	c.Apply(psg.NodeChanged{Node: classNode("n2", "slow", 1000)})
	wantPlaced(t, c.commit(gate(w, "a", "n1"), gate(w, "b", "n1")), 2)
	c.Apply(psg.NodeChanged{Node: classNode("n2", "fast", 1000)})
	m := c.improve(5, hold(w, "c"))
	wantMoves(t, m)
	if len(m.Placements) != 1 {
		t.Fatalf("%+v", m)
	}
	c.carry(t, m)
	wantMoves(t, c.improve(5), "a n1>n2")
}

func TestImprove_MakesRoomWithNoMoreMovesOfAWorkloadThanItAllows(t *testing.T) {
	small, large := prefers("small", "", 2000), prefers("large", "", 4000)
	small.Count = 2
	for at, want := range map[int][]string{1: nil, 2: {"small n1>n2", "small n1>n3"}} {
		small.Migrate = &psg.Migrate{MaxParallel: at}
		c := newCluster(Config{}, small, large, classNode("n1", "", 4000), classNode("n2", "", 2000), classNode("n3", "", 2000))
		wantPlaced(t, c.commit(gate(small, "s1", "n1"), gate(small, "s2", "n1")), 2)
		wantMoves(t, c.improve(5, hold(large, "l")), want...)
	}
}

// TestImprove_LeavesWhoHasRoomReservedToSolve: which uses the reservation up.
func TestImprove_LeavesWhoHasRoomReservedToSolve(t *testing.T) {
	w := plainWorkload("web", 1)
	c := newCluster(Config{}, w, plainNode("n1"))
	wantPlaced(t, c.commit(hold(w, "r1")), 1)
	ask := psg.Ask{ID: "a1", Alloc: "a1", Workload: w.ID, At: at}
	if m := c.improve(5, ask); len(m.Placements) > 0 {
		t.Errorf("%+v, beside the reservation", m)
	}
	if plan := c.solve(ask); len(plan.Consumed) != 1 {
		t.Errorf("%+v", plan)
	}
}

// TestImprove_ChangesPlacesWithinARack: neither may be in its rack twice, so one of
// them waits in another.
func TestImprove_ChangesPlacesWithinARack(t *testing.T) {
	a, b := prefers("a", "fast", 3000), prefers("b", "", 4000)
	onePerRack(&a)
	c := newCluster(Config{}, a, b,
		onRack(classNode("n1", "slow", 4000), "r1"), onRack(classNode("n2", "fast", 4000), "r1"),
		onRack(classNode("n3", "slow", 3000), "r2"))
	wantPlaced(t, c.commit(gate(a, "a", "n1"), gate(b, "b", "n2")), 2)
	wantMoves(t, c.improve(3), "a n1>n3", "b n2>n1", "a n3>n2")
}

// TestImprove_WhatWasResizedMovesAsItsWorkloadAsks: its successor is not resized.
func TestImprove_WhatWasResizedMovesAsItsWorkloadAsks(t *testing.T) {
	a, other := prefers("a", "fast", 1000), prefers("other", "fast", 1000)
	for _, resized := range []int64{100, 1000, 3000} {
		c := newCluster(Config{}, a, other, classNode("n1", "slow", 4000), classNode("n2", "fast", 2000))
		wantPlaced(t, c.commit(gate(a, "a", "n1"), gate(other, "b", "n1")), 2)
		h := c.held["a"].placement
		h.Request[psg.Memory] = resized
		c.Apply(psg.Placed{Placement: h})
		m := c.improve(2)
		if len(m.Moves) != 2 {
			t.Fatalf("resized to %d: %+v", resized, m.Moves)
		}
		for _, move := range m.Moves {
			if move.Placement.Request != a.Request {
				t.Errorf("resized to %d: %v go along", resized, move.Placement.Request)
			}
		}
		c.carry(t, m)
	}
}

// TestImprove_EndsAlikeWhateverCameBefore: the same nodes, told in another order,
// and the same time.
func TestImprove_EndsAlikeWhateverCameBefore(t *testing.T) {
	for end := range 40 {
		var found []string
		for _, order := range [][]int{{1, 2, 3, 4, 5, 6, 7, 8}, {8, 3, 5, 1, 2, 7, 6, 4}} {
			w := prefers("a", "fast", 1000)
			w.Count, w.Migrate = 4, &psg.Migrate{MaxParallel: 2}
			c := newCluster(Config{}, w)
			for _, i := range order {
				c.Apply(psg.NodeChanged{Node: classNode(fmt.Sprint("n", i), []string{"slow", "fast"}[i%2], 1000)})
			}
			c.rows = []psg.NodeID{"n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8"}
			wantPlaced(t, c.commit(gate(w, "a", "n2"), gate(w, "b", "n4"), gate(w, "c", "n6"), gate(w, "d", "n8")), 4)
			looks := 0
			m := c.Improve(Problem{Now: at, Seed: 3, Rows: c.rows, Stop: func() bool { looks++; return looks > end }}, 9)
			found = append(found, mustJSON(t, m))
		}
		if found[0] != found[1] {
			t.Errorf("after %d looks at the time:\n%s\n%s", end, found[0], found[1])
		}
	}
}
