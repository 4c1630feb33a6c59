package placement

import (
	"cmp"
	"slices"
	"testing"

	"github.com/psgrid/psg"
)

// seen has nodes measured as busy as what they hold makes them, of which each uses
// so many hundredths of what it asks for; each by itself, too, if so said.
func (c *cluster) seen(percent map[psg.WorkloadID]int64, each bool) {
	for _, id := range c.rows {
		n := c.nodes[id]
		cpu, memory := float64(n.spec.Capacity[psg.CPU]), 0.0
		busy, t := 0.0, psg.Telemetry{Metrics: map[string]psg.Stats{}}
		for _, h := range n.held {
			uses := func(d psg.Dimension) float64 {
				return float64(h.placement.Request[d]*percent[h.workload.id]) / 100
			}
			busy, memory = busy+uses(psg.CPU), memory+uses(psg.Memory)
			ofOneCore := 100 * uses(psg.CPU) / cpu * float64(n.spec.Capacity[psg.Cores])
			t.Allocs = append(t.Allocs, psg.AllocTelemetry{Alloc: h.placement.Ask.Alloc, Metrics: map[string]psg.Use{
				"cpu_percent": {P95: ofOneCore}, "memory_mb": {P95: uses(psg.Memory)},
			}})
		}
		slices.SortFunc(t.Allocs, func(a, b psg.AllocTelemetry) int { return cmp.Compare(a.Alloc, b.Alloc) })
		if !each {
			t.Allocs = nil
		}
		t.Metrics["cpu_percent"], t.Metrics["memory_used_mb"] = psg.Stats{P95: 100 * busy / cpu}, psg.Stats{P95: memory}
		c.Apply(psg.NodeObserved{Node: id, Telemetry: t})
	}
}

func TestImprove_NothingFleesFromItsOwnLoad(t *testing.T) {
	w, other := plainWorkload("web", 1), plainWorkload("other", 1)
	w.Request = psg.Resources{psg.CPU: 1500, psg.Memory: 1500, psg.MemoryMax: 6000}
	other.Request = psg.Resources{psg.CPU: 100, psg.Memory: 100}
	for name, one := range map[string]struct {
		uses, other int64
		each        bool
		moves       int
	}{
		"it uses what it asks for":                 {100, 0, false, 0},
		"it uses more, and that is measured":       {200, 0, true, 0},
		"another there uses more than it asks for": {100, 1500, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(Config{}, w, other)
			for _, id := range []string{"n1", "n2"} {
				n := plainNode(id)
				n.Capacity[psg.Cores] = 4
				c.addNode(n)
			}
			wantPlaced(t, c.commit(gate(w, "a", "n1")), 1)
			if one.other > 0 {
				wantPlaced(t, c.commit(gate(other, "b", "n1")), 1)
			}
			moves := 0
			for range 6 {
				c.seen(map[psg.WorkloadID]int64{w.ID: one.uses, other.ID: one.other}, one.each)
				m := c.improve(8)
				moves += len(m.Moves)
				c.carry(t, m)
			}
			if moves != one.moves {
				t.Errorf("%d moves, want %d", moves, one.moves)
			}
		})
	}
}

// settled is a world of which everything runs, under an allocation of its own.
func (w *world) settled() {
	w.loosen()
	for range 4 {
		for _, q := range w.Solve(w.problem()).Placements {
			q.State, q.Ask.Alloc = psg.Running, psg.AllocID(q.Ask.ID)
			w.Apply(psg.Placed{Placement: q})
		}
	}
	for _, n := range slices.Clone(w.nodes) {
		n.Capacity[psg.Cores] = 4
		w.setNode(n)
		w.rows = append(w.rows, n.ID)
	}
}

// TestImprove_ComesToRestUnderTheLoadThatItMoves has what moves take its load along,
// as the next look sees.
func TestImprove_ComesToRestUnderTheLoadThatItMoves(t *testing.T) {
	moved := 0
	for seed := range uint64(300) {
		w := newWorld(70_000 + seed)
		w.settled()
		percent := map[psg.WorkloadID]int64{}
		for _, id := range w.ids() {
			percent[id] = []int64{40, 70, 100}[w.rng.IntN(3)]
		}
		p := w.problem()
		p.Asks = nil
		rounds := 0
		for ; rounds < 20; rounds++ {
			w.seen(percent, seed%2 == 0)
			before := slices.Clone(w.rooms)
			m := w.Improve(p, 8)
			if !slices.Equal(before, w.rooms) {
				t.Fatalf("seed %d: the engine is not left as it was:\n%v\n%v", seed, before, w.rooms)
			}
			if len(m.Moves) == 0 {
				break
			}
			moved += len(m.Moves)
			w.carry(t, m)
		}
		if rounds == 20 {
			t.Errorf("seed %d: it does not come to rest", seed)
		}
	}
	if moved < 300 {
		t.Errorf("%d moves: the test shows little", moved)
	}
}

// TestRehearse_SaysWhatImproveSaysUnderLoad rehearses the first chain that is found on
// nodes whose load is measured.
func TestRehearse_SaysWhatImproveSaysUnderLoad(t *testing.T) {
	chains := map[int]int{}
	for seed := range uint64(400) {
		w := newWorld(80_000 + seed)
		w.settled()
		percent := map[psg.WorkloadID]int64{}
		for _, id := range w.ids() {
			percent[id] = []int64{50, 100, 180}[w.rng.IntN(3)]
		}
		p := w.problem()
		p.Asks, p.Stay = nil, map[psg.RequestID]bool{}
		for id := range w.held {
			p.Stay[id] = w.rng.IntN(4) == 0
		}
		for range 4 {
			w.seen(percent, seed%2 == 0)
			m := w.Improve(p, 8)
			gain, first := int64(0), 0
			for _, move := range m.Moves {
				if p.Stay[move.Placement.Ask.ID] {
					t.Fatalf("seed %d: %s moves, which is to stay", seed, move.Placement.Ask.ID)
				}
				if move.Chain == 1 {
					first++
					gain += move.Gain
				}
			}
			if chains[first]++; first > 0 {
				if made, now := w.Rehearse(p, m.Moves[:first]); made < first || now != gain {
					t.Fatalf("seed %d: of %d moves %d can be made, for %d in place of %d: %+v", seed, first, made, now, gain, m.Moves[:first])
				}
			}
			w.carry(t, m)
		}
	}
	t.Logf("chains %v", chains)
	if chains[1] < 100 || chains[2] < 4 {
		t.Errorf("chains %v: the test shows little", chains)
	}
}
