package placement

import (
	"fmt"
	"strings"
	"testing"

	"github.com/psgrid/psg"
)

// The small inputs that trip real schedulers, by their numbers.

func TestCase_P3_OnePerHostAcrossJobs(t *testing.T) {
	labelled := func(name string) psg.Workload {
		w := plainWorkload(name, 2)
		w.Labels = map[string]string{"group": "db"}
		return w
	}
	for _, soft := range []bool{false, true} {
		a, b := labelled("a"), labelled("b")
		cfg := Config{Limits: []psg.Limit{{Name: "one db per host", Match: map[string]string{"group": "db"}, PerNode: 1, Soft: soft}}}
		c := newCluster(cfg, plainNode("n1"), plainNode("n2"), plainNode("n3"), a, b)
		plan := c.solve(append(asksFor(a, 2), asksFor(b, 2)...)...)
		if !soft {
			wantPlaced(t, plan, 3)
			wantSummary(t, plan, 0, psg.Queued, "no node has room: limit one db per host at most 1 per node: 1 run here on n1 (nearest of 3)")
			continue
		}
		wantPlaced(t, plan, 4)
		doubled := plan.Placements[3]
		if perNode(plan)[doubled.Node] != 2 || !strings.Contains(fmt.Sprint(doubled.Score), "{limit -10000}") {
			t.Errorf("the doubling on %s is not explained: %v", doubled.Node, doubled.Score)
		}
	}
}

func TestCase_P4_LimitsPerNodeAndInTheCluster(t *testing.T) {
	cfg := Config{Limits: []psg.Limit{{Name: "mirrors", Match: map[string]string{"role": "mirror"}, PerNode: 5, Total: 20}}}
	things := []any{}
	for i := range 10 {
		n := plainNode(fmt.Sprintf("n%02d", i))
		n.Capacity = psg.Resources{psg.CPU: 1_000_000, psg.Memory: 1_000_000}
		things = append(things, n)
	}
	var asks []psg.Ask
	for i := range 500 {
		w := plainWorkload(fmt.Sprintf("mirror%03d", i), 1)
		w.Labels = map[string]string{"role": "mirror"}
		things = append(things, w)
		asks = append(asks, asksFor(w, 1)...)
	}
	plan := newCluster(cfg, things...).solve(asks...)
	wantPlaced(t, plan, 20)
	for node, n := range perNode(plan) {
		if n > 5 {
			t.Errorf("%s runs %d", node, n)
		}
	}
	for _, r := range plan.Refusals {
		if r.State != psg.Queued || r.Summary != "limit mirrors: at most 20 in the cluster" {
			t.Fatalf("%s %s: %s", r.Ask, r.State, r.Summary)
		}
	}
	if len(plan.Refusals) != 480 {
		t.Errorf("%d refused", len(plan.Refusals))
	}
}

func TestCase_P5_SpreadSharesWhatTargetsLeave(t *testing.T) {
	w := plainWorkload("web", 12)
	w.Spreads = []psg.Spread{{Attribute: "${node.datacenter}", Weight: 100, Targets: []psg.SpreadTarget{{Value: "dc1", Percent: 50}}}}
	things := []any{w}
	for i := range 9 {
		n := plainNode(fmt.Sprintf("n%d", i))
		n.Datacenter = fmt.Sprintf("dc%d", i/3+1)
		things = append(things, n)
	}
	plan := newCluster(Config{}, things...).solve(asksFor(w, 12)...)
	wantPlaced(t, plan, 12)
	byDC := map[string]int{}
	for node, n := range perNode(plan) {
		byDC[fmt.Sprintf("dc%d", (node[1]-'0')/3+1)] += n
	}
	if byDC["dc1"] != 6 || byDC["dc2"] != 3 || byDC["dc3"] != 3 {
		t.Errorf("spread %v", byDC)
	}
}

func TestCase_P6_RareAffinityIsAlwaysFound(t *testing.T) {
	w := plainWorkload("web", 1)
	w.Affinities = []psg.Affinity{{Constraint: psg.Constraint{Left: "${attr.ssd}", Operator: psg.Equal, Right: "fast"}, Weight: 50}}
	things := []any{w}
	for i := range 1000 {
		n := plainNode(fmt.Sprintf("n%04d", i))
		if i == 777 {
			n.Attributes = map[string]string{"ssd": "fast"}
		}
		things = append(things, n)
	}
	c := newCluster(Config{}, things...)
	for seed := range uint64(20) {
		plan := c.Solve(Problem{Now: at, Seed: seed, Asks: asksFor(w, 1), Rows: c.rows})
		wantPlaced(t, plan, 1)
		if plan.Placements[0].Node != "n0777" {
			t.Fatalf("seed %d chose %s", seed, plan.Placements[0].Node)
		}
	}
}

func TestCase_P7_BothSidesResolveOnTheNode(t *testing.T) {
	w := plainWorkload("web", 1)
	w.Constraints = []psg.Constraint{{Left: "${meta.rack}", Operator: psg.Equal, Right: "${attr.zone}"}}
	wrong, right := plainNode("n1"), plainNode("n2")
	wrong.Meta, wrong.Attributes = map[string]string{"rack": "a"}, map[string]string{"zone": "b"}
	right.Meta, right.Attributes = map[string]string{"rack": "b"}, map[string]string{"zone": "a"}
	c := newCluster(Config{}, w, wrong, right)
	wantSummary(t, c.solve(asksFor(w, 1)...), 0, psg.Queued,
		`no node qualifies: constraint ${meta.rack} = ${attr.zone}: here it is "a" on n1 (nearest of 2)`)
	right.Meta = map[string]string{"rack": "a"} // dynamic meta changes at run time
	c.Apply(psg.NodeChanged{Node: right})
	plan := c.solve(asksFor(w, 1)...)
	wantPlaced(t, plan, 1)
	if plan.Placements[0].Node != "n2" {
		t.Errorf("chose %s", plan.Placements[0].Node)
	}
}

func TestCase_P9_OrderAsNomadCompares(t *testing.T) {
	for _, tc := range []struct {
		op          psg.Operator
		left, right string
		want        bool
		how         string
	}{
		{psg.Greater, "10", "9", true, "compared as integers"},
		{psg.Greater, "1.10.0", "1.9.0", false, "compared as text"},
		{psg.Version, "1.10.0", "> 1.9.0", true, ""},
		{psg.Greater, "abc", "5", true, "compared as text"},
	} {
		w := plainWorkload("web", 1)
		w.Constraints = []psg.Constraint{{Left: "${attr.x}", Operator: tc.op, Right: tc.right}}
		n := plainNode("n1")
		n.Attributes = map[string]string{"x": tc.left}
		plan := newCluster(Config{}, w, n).solve(asksFor(w, 1)...)
		if got := len(plan.Placements) == 1; got != tc.want {
			t.Errorf("%q %s %q is %t, want %t", tc.left, tc.op, tc.right, got, tc.want)
		}
		if !tc.want && !strings.Contains(summaries(plan), tc.how) {
			t.Errorf("the explanation does not say %q: %s", tc.how, summaries(plan))
		}
		if _, how := order(tc.op, tc.left, tc.right); tc.how != "" && string(how) != tc.how {
			t.Errorf("%q %s %q was %s", tc.left, tc.op, tc.right, how)
		}
	}
}

func TestCase_P10_StaticPortNamesItsHolder(t *testing.T) {
	a, b := plainWorkload("a", 1), plainWorkload("b", 1)
	a.Ports = []psg.PortAsk{{Label: "http", Static: 8080}}
	b.Ports = []psg.PortAsk{{Label: "http", Static: 8080}}
	plan := newCluster(Config{}, a, b, plainNode("n1")).solve(append(asksFor(a, 1), asksFor(b, 1)...)...)
	wantPlaced(t, plan, 1)
	wantSummary(t, plan, 0, psg.Queued, "no node has room: port 8080 is taken on n1 by default/a/main on n1")
}

func TestCase_P11_ExactlyWhatFits(t *testing.T) {
	w := plainWorkload("web", 1000)
	n := plainNode("n1")
	n.Capacity = psg.Resources{psg.CPU: 100_000, psg.Memory: 1_000_000}
	c := newCluster(Config{}, w, n)
	wantPlaced(t, c.commit(asksFor(w, 1000)...), 200)
	if free := c.rooms[0].free[psg.CPU]; free != 0 {
		t.Errorf("%d MHz left", free)
	}
}

func TestCase_P12_FreedRoomIsFoundInTheNextCycle(t *testing.T) {
	w := plainWorkload("web", 9)
	c := newCluster(Config{}, w, plainNode("n1"))
	asks := asksFor(w, 9)
	wantPlaced(t, c.commit(asks[:8]...), 8)
	wantPlaced(t, c.commit(asks[8]), 0)
	c.Apply(psg.Freed{Ask: asks[0].ID, State: psg.Released, At: at})
	wantPlaced(t, c.commit(asks[8]), 1)
}

func TestCase_G1_FourDistinctDevices(t *testing.T) {
	whole := psg.DeviceAsk{Name: "gpu", Count: 2, MilliGPU: 1000}
	w := gpuWorkload("train", 1, whole, whole)
	plan := newCluster(Config{}, w, gpuNode("n1", "A100", 4)).solve(asksFor(w, 1)...)
	wantPlaced(t, plan, 1)
	seen := map[psg.DeviceID]bool{}
	for _, share := range plan.Placements[0].Devices {
		seen[share.Device] = true
	}
	if len(seen) != 4 {
		t.Errorf("devices %v", plan.Placements[0].Devices)
	}
}

func TestCase_G2_QuartersShareOneCard(t *testing.T) {
	w := gpuWorkload("infer", 4, psg.DeviceAsk{Name: "gpu", Count: 1, MilliGPU: 250})
	c := newCluster(Config{}, w, gpuNode("n1", "A100", 4))
	wantPlaced(t, c.commit(asksFor(w, 4)...), 4)
	untouched := 0
	for _, card := range c.nodes["n1"].cards {
		if card.shares == 0 {
			untouched++
		}
	}
	if untouched != 3 {
		t.Errorf("%d cards untouched", untouched)
	}
}

func TestCase_G3_MemoryAskSharesTheCard(t *testing.T) {
	w := gpuWorkload("infer", 2, psg.DeviceAsk{Name: "gpu", Count: 1, MemoryMB: 2048})
	n := gpuNode("n1", "T4", 1)
	n.Devices[0].MemoryMB = 8192
	plan := newCluster(Config{}, w, n).solve(asksFor(w, 2)...)
	wantPlaced(t, plan, 2)
	if s := plan.Placements[0].Devices[0]; s.MilliGPU != 0 || s.MemoryMB != 2048 {
		t.Errorf("holds %+v", s)
	}
}

func TestCase_G5_NoCardTwice(t *testing.T) {
	w := gpuWorkload("train", 100, psg.DeviceAsk{Name: "gpu", Count: 1, MilliGPU: 1000})
	plan := newCluster(Config{}, w, gpuNode("n1", "A100", 8)).solve(asksFor(w, 100)...)
	wantPlaced(t, plan, 8)
	seen := map[psg.DeviceID]bool{}
	for _, p := range plan.Placements {
		if seen[p.Devices[0].Device] {
			t.Errorf("%s twice", p.Devices[0].Device)
		}
		seen[p.Devices[0].Device] = true
	}
	wantSummary(t, plan, 0, psg.Queued, "no node has room: device whole gpu: 0 of 1 free on n1")
}

func TestCase_G7_LinkedCardsFromOneIsland(t *testing.T) {
	n := gpuNode("n1", "H100", 8)
	for i := range n.Devices {
		n.Devices[i].Link = fmt.Sprintf("nvlink%d", i/4)
	}
	one := gpuWorkload("one", 1, psg.DeviceAsk{Name: "gpu", Count: 1, MilliGPU: 1000})
	four := gpuWorkload("four", 1, psg.DeviceAsk{Name: "gpu", Count: 4, MilliGPU: 1000, Linked: true})
	c := newCluster(Config{}, n, one, four)
	wantPlaced(t, c.commit(asksFor(one, 1)...), 1)
	plan := c.commit(asksFor(four, 1)...)
	wantPlaced(t, plan, 1)
	for i, share := range plan.Placements[0].Devices {
		if want := psg.DeviceID(fmt.Sprintf("n1-gpu%d", i+4)); share.Device != want {
			t.Errorf("device %d is %s, want %s", i, share.Device, want)
		}
	}
}

func TestCase_Q1_IncompleteRoomHoldsNothing(t *testing.T) {
	gang, single := plainWorkload("gang", 8), plainWorkload("single", 1)
	gang.Gang, gang.Priority = "g", 90
	n := plainNode("n1")
	n.Capacity[psg.CPU] = 3500 // room for seven
	plan := newCluster(Config{}, n, gang, single).solve(append(asksFor(gang, 8), asksFor(single, 1)...)...)
	wantPlaced(t, plan, 1)
	if plan.Placements[0].Ask.Workload != single.ID {
		t.Errorf("placed %v", plan.Placements[0].Ask)
	}
	wantSummary(t, plan, 0, psg.Queued,
		"gang g waits: 7 of 8 fit; then no node has room: cpu_mhz short by 500 on n1")
	if len(plan.Refusals) != 8 {
		t.Errorf("%d refusals", len(plan.Refusals))
	}
}

func TestCase_Q2_AskingForNothingServesTheRest(t *testing.T) {
	nothing, gang, web := plainWorkload("nothing", 0), plainWorkload("gang", 0), plainWorkload("web", 1)
	nothing.Priority, gang.Priority, gang.Gang = 100, 99, "g"
	asks := append(asksFor(nothing, 1), append(asksFor(gang, 1), asksFor(web, 1)...)...)
	plan := newCluster(Config{}, plainNode("n1"), nothing, gang, web).solve(asks...)
	wantPlaced(t, plan, 1)
	wantSummary(t, plan, 0, psg.Queued, "workload: its count is 0: it asks for nothing")
}
