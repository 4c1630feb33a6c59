package placement

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/psgrid/psg"
)

// afresh is an engine built from what the world holds now.
func (w *world) afresh() *Engine {
	s := psg.Snapshot{Nodes: slices.Clone(w.nodes), Placements: psg.PlacementsOf(w.placements...)}
	for _, d := range w.twin.workloads {
		s.Workloads = append(s.Workloads, d)
	}
	s.Sort()
	e := New(w.cfg)
	for _, d := range s.Deltas() {
		e.Apply(d)
	}
	return e
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestSolve_EqualsAnEngineBuiltAfresh(t *testing.T) {
	for seed := range uint64(200) {
		w := newWorld(1000 + seed)
		for round := range 8 {
			if seed >= 120 && round%3 == 0 {
				w.bind()
				w.part()
			}
			p := w.problem()
			plan := w.Solve(p)
			got, want := mustJSON(t, plan), mustJSON(t, w.afresh().Solve(p))
			if got != want {
				t.Fatalf("seed %d round %d:\n%s\nafresh:\n%s", seed, round, got, want)
			}
			if again := mustJSON(t, w.Solve(p)); again != got {
				t.Fatalf("seed %d round %d: a second Solve differs:\n%s\n%s", seed, round, got, again)
			}
			w.agree(t, p, plan)
			for _, q := range plan.Placements {
				w.Apply(psg.Placed{Placement: q})
				w.Apply(psg.Placed{Placement: q}) // redelivery
			}
			w.shake()
		}
	}
}

func TestSolve_OrderOfTheAsksDoesNotMatter(t *testing.T) {
	for seed := range uint64(40) {
		w := newWorld(5000 + seed)
		p := w.problem()
		want := map[psg.RequestID]psg.NodeID{}
		for _, q := range w.Solve(p).Placements {
			want[q.Ask.ID] = q.Node
		}
		w.rng.Shuffle(len(p.Asks), func(i, j int) { p.Asks[i], p.Asks[j] = p.Asks[j], p.Asks[i] })
		plan := w.Solve(p)
		for _, q := range plan.Placements {
			if want[q.Ask.ID] != q.Node {
				t.Fatalf("seed %d: %s went to %s, before to %s", seed, q.Ask.ID, q.Node, want[q.Ask.ID])
			}
		}
		if len(plan.Placements) != len(want) {
			t.Fatalf("seed %d: %d placed, before %d", seed, len(plan.Placements), len(want))
		}
	}
}

func TestSolve_LeavesTheEngineAsItWas(t *testing.T) {
	w := newWorld(7)
	p := w.problem()
	before := slices.Clone(w.rooms)
	if len(w.Solve(p).Placements) == 0 {
		t.Fatal("nothing was placed: the test shows nothing")
	}
	if !slices.Equal(before, w.rooms) {
		t.Errorf("rooms changed from %v to %v", before, w.rooms)
	}
	if len(w.held) != 0 {
		t.Errorf("%d placements left in the book", len(w.held))
	}
}

func TestSolve_GangsAreWholeOrNothing(t *testing.T) {
	whole, none := 0, 0
	for seed := range uint64(160) {
		w := newWorld(9000 + seed)
		if seed >= 60 {
			w.bind()
			w.part()
		}
		for _, id := range w.ids() {
			d := w.twin.workloads[id]
			if w.rng.IntN(2) == 0 {
				d.Gang, d.Count = psg.GangID(w.pick("g1", "g2")), 1+w.rng.IntN(2)
				w.twin.workloads[id] = d
				w.Apply(psg.WorkloadChanged{Workload: d})
			}
		}
		p := w.problem()
		placed, asked := map[psg.GangID]int{}, map[psg.GangID]int{}
		for _, ask := range p.Asks {
			asked[w.twin.workloads[ask.Workload].Gang]++
		}
		all := w.Solve(p).Placements
		w.allStand(t, all)
		for _, q := range all {
			placed[w.twin.workloads[q.Ask.Workload].Gang]++
		}
		for _, gang := range []psg.GangID{"g1", "g2"} {
			switch {
			case asked[gang] > 0 && placed[gang] == asked[gang]:
				whole++
			case asked[gang] > 0:
				none++
			}
			if placed[gang] != 0 && placed[gang] != asked[gang] {
				t.Fatalf("seed %d: %d of %d of gang %s placed", seed, placed[gang], asked[gang], gang)
			}
		}
	}
	if whole < 3 || none < 3 {
		t.Errorf("%d gangs placed, %d not: the test shows little", whole, none)
	}
}
