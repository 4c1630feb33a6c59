package placement

import (
	"fmt"
	"testing"

	"github.com/psgrid/psg"
)

// TestSolve_EveryDimensionRunsOut asks for a third of one dimension of a node,
// four times: the fourth names what is short. The ceiling memory_max is not summed.
func TestSolve_EveryDimensionRunsOut(t *testing.T) {
	for d := range psg.Dimension(psg.Dimensions) {
		n := plainNode("n1")
		n.Capacity = psg.Resources{psg.CPU: 9000, psg.Cores: 9, psg.Memory: 9000, psg.MemoryMax: 9000, psg.Disk: 9000, psg.Network: 9000, psg.IOPS: 9000}
		w := plainWorkload("web", 4)
		w.Request = psg.Resources{}
		w.Request[d] = n.Capacity[d] / 3
		plan := newCluster(Config{}, n, w).solve(asksFor(w, 4)...)
		if d == psg.MemoryMax {
			wantPlaced(t, plan, 4)
			continue
		}
		wantPlaced(t, plan, 3)
		short := w.Request[d]
		if d == psg.Cores {
			wantSummary(t, plan, 0, psg.Queued, "no node has room: cpu_mhz short by 3000; cores short by 3 on n1")
			continue
		}
		wantSummary(t, plan, 0, psg.Queued, fmt.Sprintf("no node has room: %s short by %d on n1", d, short))
	}
}

func TestSolve_PreferredNUMANodeIsAPreference(t *testing.T) {
	split, whole := gpuNode("n1", "A100", 2), gpuNode("n2", "A100", 2)
	split.Devices[0].NUMA, split.Devices[1].NUMA = 0, 1
	whole.Devices[0].NUMA, whole.Devices[1].NUMA = 1, 1
	pair := gpuWorkload("pair", 2, psg.DeviceAsk{Name: "gpu", Count: 2, MilliGPU: 1000})
	pair.NUMA = "prefer"
	plan := newCluster(Config{}, split, whole, pair).solve(asksFor(pair, 2)...)
	wantPlaced(t, plan, 2)
	if first, second := plan.Placements[0], plan.Placements[1]; first.Node != "n2" || second.Node != "n1" {
		t.Errorf("on %s, then on %s; want the cards of one NUMA node first, and others when they are gone", first.Node, second.Node)
	}
	named := false
	for _, part := range plan.Placements[0].Score {
		named = named || part.Name == "numa" && part.Points > 0
	}
	if !named {
		t.Errorf("the score does not say so: %v", plan.Placements[0].Score)
	}
}

func TestSolve_WhatIsProjectedCountsBeforeWhatIsMeasured(t *testing.T) {
	w := plainWorkload("web", 1)
	busy, idle := plainNode("n1"), plainNode("n2")
	measured := func(percent float64) *psg.Telemetry {
		return &psg.Telemetry{Metrics: map[string]psg.Stats{"cpu_percent": {P95: percent}}}
	}
	busy.Telemetry, busy.Projection = measured(5), &psg.Projection{Upper: psg.Resources{psg.CPU: 3800}}
	idle.Telemetry, idle.Projection = measured(90), &psg.Projection{Upper: psg.Resources{psg.CPU: 100}}
	plan := newCluster(Config{}, busy, idle, w).solve(asksFor(w, 1)...)
	wantPlaced(t, plan, 1)
	if plan.Placements[0].Node != "n2" {
		t.Errorf("on %s, want n2, which is about to be idle", plan.Placements[0].Node)
	}
}

func TestSolve_RepelledByANegativeAffinity(t *testing.T) {
	w := plainWorkload("web", 1)
	w.Affinities = []psg.Affinity{{Constraint: psg.Constraint{Left: "${node.class}", Operator: psg.Equal, Right: "spot"}, Weight: -50}}
	spot, steady := plainNode("n1"), plainNode("n2")
	spot.Class = "spot"
	c := newCluster(Config{}, spot, steady, w)
	if plan := c.solve(asksFor(w, 1)...); len(plan.Placements) != 1 || plan.Placements[0].Node != "n2" {
		t.Errorf("%+v", plan.Placements)
	}
	c.Apply(psg.NodeGone{Node: "n2"})
	wantPlaced(t, c.solve(asksFor(w, 1)...), 1) // it repels, it does not forbid
}

// TestImprove_MovesOnlyWhatMayBeMoved: four instances on the first of two nodes
// want to be spread; each block allows so many of them on the move at once.
func TestImprove_MovesOnlyWhatMayBeMoved(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*psg.Workload)
		most   int
	}{
		"nothing said": {func(*psg.Workload) {}, 1},
		"migrate":      {func(w *psg.Workload) { w.Migrate = &psg.Migrate{MaxParallel: 2} }, 2},
		"disruption": {func(w *psg.Workload) {
			w.Disruption = &psg.Disruption{MaxUnavailable: 2}
			w.Migrate = &psg.Migrate{MaxParallel: 1}
		}, 2},
		"none may be down":     {func(w *psg.Workload) { w.Disruption = &psg.Disruption{Order: psg.StopFirst} }, 0},
		"another starts first": {func(w *psg.Workload) { w.Disruption = &psg.Disruption{} }, 1},
		"not ours":             {func(w *psg.Workload) { w.Labels = map[string]string{psg.ManagedLabel: "false"} }, 0},
	} {
		w := plainWorkload("web", 4)
		w.Spreads = []psg.Spread{{Attribute: "${node.unique.id}", Weight: 100}}
		tc.change(&w)
		c := newCluster(Config{}, plainNode("n1"), plainNode("n2"), w)
		wantPlaced(t, c.commit(gate(w, "a", "n1"), gate(w, "b", "n1"), gate(w, "c", "n1"), gate(w, "d", "n1")), 4)
		if got := c.Improve(Problem{Now: at, Rows: c.rows}, 10); len(got.Moves) != tc.most {
			t.Errorf("%s: %d moves, want %d", name, len(got.Moves), tc.most)
		}
	}
}
