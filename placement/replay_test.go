package placement

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

// bind puts workloads under what counts in all of the cluster, or forbids to move
// them, whatever the cluster is like now.
func (w *world) bind() {
	w.twin.limits = []psg.Limit{
		{Name: "all", Match: map[string]string{"team": "a"}, Total: 1 + w.rng.IntN(len(w.placements)+3)},
		{Name: "each", Match: map[string]string{"team": "b"}, PerNode: 1 + w.rng.IntN(2), Soft: w.rng.IntN(3) == 0},
		{Name: "few", Match: map[string]string{"few": "yes"}, Total: 2 + w.rng.IntN(3), PerNode: 2},
	}
	w.SetLimits(w.twin.limits)
	for _, id := range w.ids() {
		d := w.twin.workloads[id]
		d.Labels = map[string]string{"team": w.pick("a", "b", "c"), "few": w.pick("yes", "no", "no")}
		d.Count += w.rng.IntN(3)
		switch w.rng.IntN(8) {
		case 0, 1:
			d.Constraints = []psg.Constraint{{Operator: psg.DistinctProperty, Left: "${attr.rack}", Right: w.pick("", "1", "2")}}
		case 2:
			d.Constraints = []psg.Constraint{{Operator: psg.DistinctHosts}}
		case 3, 4:
			d.MinDomains, d.Count = 2, max(2, d.Count)
		case 5:
			d.Spreads = []psg.Spread{{Attribute: w.pick("${attr.zone}", "${attr.rack}"), Weight: 100}}
		}
		switch w.rng.IntN(8) {
		case 0, 1:
			d.Migrate = &psg.Migrate{MaxParallel: 1 + w.rng.IntN(2)}
		case 2:
			d.Disruption = &psg.Disruption{MaxUnavailable: w.rng.IntN(3), Order: psg.StopFirst}
		case 3:
			d.Gang = "gang"
		case 4:
			d.Labels[psg.ManagedLabel] = w.pick("true", "false")
		}
		w.twin.workloads[id] = d
		w.Apply(psg.WorkloadChanged{Workload: d})
	}
}

// part has nobody be of a gang.
func (w *world) part() {
	for _, id := range w.ids() {
		d := w.twin.workloads[id]
		d.Gang = ""
		w.twin.workloads[id] = d
		w.Apply(psg.WorkloadChanged{Workload: d})
	}
}

// protect has policy protect some workloads.
func (w *world) protect(p Problem) {
	w.twin.protected = map[psg.WorkloadID]bool{}
	for _, id := range w.ids() {
		if w.rng.IntN(6) == 0 {
			w.twin.protected[id] = true
			p.Rulings[id].Protected = []psg.Reason{{Source: "policy p", Text: "stays"}}
		}
	}
}

// mayMove is the dumb reading of how many instances of a workload may move at once.
func mayMove(d psg.Workload, ruling *psg.Ruling) int {
	switch {
	case d.Gang != "" || d.Labels[psg.ManagedLabel] == "false" || len(ruling.Protected) > 0:
		return 0
	case d.Disruption != nil:
		return d.Disruption.MaxUnavailable
	case d.Migrate != nil:
		return d.Migrate.MaxParallel
	}
	return 1
}

// replay has an engine built afresh carry an improvement out as the controller does,
// step by step: room is reserved where an instance goes, what runs is stopped before
// its successor takes the room up or after, and the asks come last.
func (w *world) replay(t *testing.T, p Problem, m Improvement) {
	t.Helper()
	e := w.afresh()
	both := func(d psg.Delta) { e.Apply(d); w.Apply(d) }
	now := map[psg.RequestID]int{} // where in w.placements
	for i, q := range w.placements {
		now[q.Ask.ID] = i
	}
	solve := func(asks ...psg.Ask) []psg.Placement {
		p.Asks = asks
		plan := e.Solve(p)
		if len(plan.Placements) < len(asks) {
			t.Fatalf("after %+v, with %+v: %s", m.Moves, m.Placements, summaries(plan))
		}
		for _, used := range plan.Consumed {
			both(psg.Freed{Ask: used, State: psg.Released, At: at})
		}
		for _, q := range plan.Placements {
			both(psg.Placed{Placement: q})
		}
		return plan.Placements
	}
	for i, move := range m.Moves {
		id, goal := move.Placement.Ask.ID, move.Placement.Node
		source := &w.placements[now[id]]
		was := source.Ask.ID
		if source.Node != move.From || !w.fits(w.twin.workloads[source.Ask.Workload], w.node(goal)) {
			t.Fatalf("step %d: %s on %s can't go from %s to %s", i, id, source.Node, move.From, goal)
		}
		room := psg.Ask{ID: psg.RequestID(fmt.Sprint("move/", was, "/", i)), Workload: source.Ask.Workload, Node: goal, At: at, Hold: 2 * time.Minute}
		solve(room)
		both(psg.Moved{Ask: was, State: psg.Moving, At: at})
		stop := psg.Freed{Ask: was, State: psg.Released, At: at}
		if i%2 == 0 {
			both(stop)
		}
		alloc := fmt.Sprint(was, "'")
		arrived := solve(psg.Ask{ID: psg.RequestID(alloc), Alloc: psg.AllocID(alloc), Workload: source.Ask.Workload, Node: goal, At: at})[0]
		if i%2 == 1 {
			both(stop)
		}
		both(psg.Freed{Ask: arrived.Ask.ID, State: psg.Released, At: at}) // the test knows it by its old name
		arrived.Ask, arrived.State = source.Ask, psg.Running
		both(psg.Placed{Placement: arrived})
		*source = arrived
	}
	var asks []psg.Ask
	for _, q := range m.Placements {
		q.Ask.Node = q.Node
		asks = append(asks, q.Ask)
	}
	w.placements = append(w.placements, solve(asks...)...)
}

// TestImprove_EveryStepCanBeTaken carries out what is found in random clusters where
// much of what a move needs counts in all of the cluster.
func TestImprove_EveryStepCanBeTaken(t *testing.T) {
	moved, placed, chains := 0, 0, map[int]int{}
	for seed := range uint64(250) {
		w := newWorld(90_000 + seed)
		w.loosen()
		for range 8 {
			p := w.problem()
			plan := w.Solve(p)
			w.agree(t, p, plan)
			for _, q := range plan.Placements {
				w.Apply(psg.Placed{Placement: q})
			}
		}
		for range len(w.placements) / 5 {
			i := w.rng.IntN(len(w.placements))
			w.free(w.placements[i])
			w.placements = slices.Delete(w.placements, i, i+1)
		}
		w.bind()
		for round := range 6 {
			w.divide()
			p := w.problem()
			w.protect(p)
			if round%3 > 0 {
				p.Asks = nil
			}
			budget := w.rng.IntN(9)
			m := w.Improve(p, budget)
			if again := w.afresh().Improve(p, budget); mustJSON(t, again) != mustJSON(t, m) {
				t.Fatalf("seed %d: %s\nafresh:\n%s", seed, mustJSON(t, m), mustJSON(t, again))
			}
			if len(m.Moves) > budget {
				t.Fatalf("seed %d: %d moves, budget %d", seed, len(m.Moves), budget)
			}
			at, moving, size := map[psg.RequestID]bool{}, map[psg.WorkloadID]int{}, map[int]int{}
			for _, move := range m.Moves {
				id := move.Placement.Ask.Workload
				if size[move.Chain]++; !at[move.Placement.Ask.ID] {
					at[move.Placement.Ask.ID] = true
					moving[id]++
				}
				if most := mayMove(w.twin.workloads[id], p.Rulings[id]); moving[id] > most {
					t.Fatalf("seed %d: %d instances of %s move, at most %d may", seed, moving[id], id, most)
				}
			}
			for _, n := range size {
				chains[n]++
			}
			moved, placed = moved+len(m.Moves), placed+len(m.Placements)
			w.replay(t, p, m)
			w.shake()
		}
	}
	t.Logf("%d moves in chains %v, %d placements", moved, chains, placed)
	if moved < 300 || placed < 300 || chains[2] < 4 || chains[3] < 2 {
		t.Errorf("%d moves in chains %v, %d placements: the test shows little", moved, chains, placed)
	}
}
