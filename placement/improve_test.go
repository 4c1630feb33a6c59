package placement

import (
	"fmt"
	"slices"
	"testing"

	"github.com/psgrid/psg"
)

// carry applies an improvement as the controller would, and fails where a
// destination has no room while its source still runs.
func (c *cluster) carry(t *testing.T, m Improvement) {
	t.Helper()
	for _, move := range m.Moves {
		if c.held[move.Placement.Ask.ID].placement.Node != move.From {
			t.Fatalf("%s is not on %s", move.Placement.Ask.ID, move.From)
		}
		destination := move.Placement
		destination.Ask.ID += "-destination"
		c.Apply(psg.Placed{Placement: destination}) // both held
		c.wantWithinCapacity(t)
		c.Apply(psg.Freed{Ask: destination.Ask.ID, At: at})
		arrived := move.Placement
		arrived.State = psg.Running
		c.Apply(psg.Placed{Placement: arrived})
	}
	for _, p := range m.Placements {
		c.Apply(psg.Placed{Placement: p})
		c.wantWithinCapacity(t)
	}
}

func (c *cluster) wantWithinCapacity(t *testing.T) {
	t.Helper()
	for slot, n := range c.slots {
		if n == nil {
			continue
		}
		for d, free := range c.rooms[slot].free {
			if free < 0 {
				t.Fatalf("%s is over capacity in %s by %d", n.name(), psg.Dimension(d), -free)
			}
		}
		for i := range n.cards {
			if card := &n.cards[i]; card.milli < 0 || card.memory < 0 {
				t.Fatalf("%s has %d milli and %d MiB", card.spec.ID, card.milli, card.memory)
			}
		}
		for key, holders := range n.ports.holders {
			if len(holders) > 1 {
				t.Fatalf("port %v on %s is held by %v", key, n.name(), holders)
			}
		}
	}
}

func (c *cluster) improve(moves int, asks ...psg.Ask) Improvement {
	return c.Improve(Problem{Now: at, Asks: asks, Rows: c.rows, Rulings: c.rulings}, moves)
}

func (c *cluster) addNode(n psg.Node) {
	c.rows = append(c.rows, n.ID)
	c.Apply(psg.NodeChanged{Node: n})
}

func (c *cluster) spreadOf(key func(psg.NodeID) string) (low, high int) {
	counts := map[string]int{}
	for _, id := range c.rows {
		counts[key(id)] += 0
	}
	for _, h := range c.held {
		counts[key(h.placement.Node)]++
	}
	low = len(c.held)
	for _, n := range counts {
		low, high = min(low, n), max(high, n)
	}
	return low, high
}

func TestCase_P1_EmptyNodeFillsWithinTheBudgetAndComesToRest(t *testing.T) {
	w := plainWorkload("web", 100)
	w.Request = psg.Resources{psg.CPU: 100, psg.Memory: 100}
	w.Spreads = []psg.Spread{{Attribute: "${node.unique.id}", Weight: 100}}
	w.Migrate = &psg.Migrate{MaxParallel: 3}
	c := newCluster(Config{}, w)
	for i := range 10 {
		c.addNode(plainNode(fmt.Sprintf("n%02d", i)))
	}
	wantPlaced(t, c.commit(asksFor(w, 100)...), 100)
	node := func(id psg.NodeID) string { return string(id) }
	if low, high := c.spreadOf(node); low != 10 || high != 10 {
		t.Fatalf("%d..%d per node to begin with", low, high)
	}
	c.addNode(plainNode("n10"))
	total := 0
	for range 10 {
		m := c.improve(2)
		if len(m.Moves) > 2 {
			t.Fatalf("%d moves, budget 2", len(m.Moves))
		}
		total += len(m.Moves)
		c.carry(t, m)
	}
	if low, high := c.spreadOf(node); high-low > 1 || total != 9 {
		t.Errorf("%d..%d per node after %d moves", low, high, total)
	}
	for range 100 {
		if m := c.improve(2); len(m.Moves) > 0 {
			t.Fatalf("moves at rest: %+v", m.Moves)
		}
	}
}

func TestCase_P2_ReturnedDatacenterIsBalancedAgain(t *testing.T) {
	w := plainWorkload("web", 20)
	w.Request = psg.Resources{psg.CPU: 100, psg.Memory: 100}
	w.Spreads = []psg.Spread{{Attribute: "${node.datacenter}", Weight: 100, Targets: []psg.SpreadTarget{{Value: "dc1", Percent: 50}, {Value: "dc2", Percent: 50}}}}
	w.Migrate = &psg.Migrate{MaxParallel: 2}
	c := newCluster(Config{}, w, plainNode("a1"), plainNode("a2"))
	wantPlaced(t, c.commit(asksFor(w, 20)...), 20) // while dc2 is away
	for _, name := range []string{"b1", "b2"} {
		n := plainNode(name)
		n.Datacenter = "dc2"
		c.addNode(n)
	}
	for range 10 {
		m := c.improve(100)
		if len(m.Moves) > 2 {
			t.Fatalf("%d at once, limit 2", len(m.Moves))
		}
		c.carry(t, m)
	}
	if low, high := c.spreadOf(func(id psg.NodeID) string { return string(id[0]) }); low != 10 || high != 10 {
		t.Errorf("%d and %d", low, high)
	}
	if m := c.improve(100); len(m.Moves) > 0 {
		t.Errorf("moves at rest: %+v", m.Moves)
	}
}

func TestCase_P8_OneMoveMakesRoom(t *testing.T) {
	small, large := plainWorkload("small", 2), plainWorkload("large", 1)
	small.Request = psg.Resources{psg.Memory: 2048}
	large.Request = psg.Resources{psg.Memory: 3072}
	c := newCluster(Config{}, small, large)
	for _, name := range []string{"n1", "n2"} {
		n := plainNode(name)
		n.Capacity[psg.Memory] = 4096
		c.addNode(n)
	}
	wantPlaced(t, c.commit(gate(small, "s1", "n1"), gate(small, "s2", "n2")), 2)
	wantPlaced(t, c.solve(asksFor(large, 1)...), 0)
	m := c.improve(5, asksFor(large, 1)...)
	if len(m.Moves) != 1 || len(m.Placements) != 1 || m.Moves[0].For != "large-000" {
		t.Fatalf("%+v", m)
	}
	c.carry(t, m)

	protected := newCluster(Config{}, small, large, c.nodes["n1"].spec, c.nodes["n2"].spec)
	protected.commit(gate(small, "s1", "n1"), gate(small, "s2", "n2"))
	protected.rulings[small.ID] = &psg.Ruling{Workload: small.ID, Protected: []psg.Reason{{Source: "policy p", Text: "stays"}}}
	if m := protected.improve(5, asksFor(large, 1)...); len(m.Moves)+len(m.Placements) > 0 {
		t.Errorf("moved what policy protects: %+v", m)
	}
}

func TestImprove_RandomMovesAreExecutable(t *testing.T) {
	moved, unblocked := 0, 0
	for seed := range uint64(200) {
		w := newWorld(30_000 + seed)
		for range 4 {
			p := w.problem()
			plan := w.Solve(p)
			w.agree(t, p, plan)
			for _, q := range plan.Placements {
				w.Apply(psg.Placed{Placement: q})
			}
			p = w.problem()
			before := mustJSON(t, w.Solve(p))
			m := w.Improve(p, 3)
			if len(m.Moves) > 3 {
				t.Fatalf("%d moves", len(m.Moves))
			}
			if after := mustJSON(t, w.Solve(p)); after != before {
				t.Fatalf("seed %d: Improve changed the engine", seed)
			}
			moved, unblocked = moved+len(m.Moves), unblocked+len(m.Placements)
			w.carry(t, m)
			for _, move := range m.Moves {
				if w.denied[move.Placement.Ask.Workload][move.Placement.Node] {
					t.Fatalf("seed %d: moved to a denied node", seed)
				}
				i := slices.IndexFunc(w.placements, func(q psg.Placement) bool { return q.Ask.ID == move.Placement.Ask.ID })
				w.placements[i] = move.Placement
			}
			w.placements = append(w.placements, m.Placements...)
			w.shake()
		}
	}
	if moved < 40 || unblocked < 500 {
		t.Errorf("%d moves and %d placements: the test shows little", moved, unblocked)
	}
}

func TestCase_Q3_VictimMustFreeThePort(t *testing.T) {
	cheap, holder, urgent := plainWorkload("cheap", 1), plainWorkload("holder", 1), plainWorkload("urgent", 1)
	cheap.Priority, holder.Priority, urgent.Priority = 1, 40, 90
	cheap.Preemptible, holder.Preemptible = true, true
	holder.Ports = []psg.PortAsk{{Label: "p", Static: 8080}}
	urgent.Ports = []psg.PortAsk{{Label: "p", Static: 8080}}
	c := newCluster(Config{}, cheap, holder, urgent, plainNode("n1"))
	wantPlaced(t, c.commit(append(asksFor(cheap, 1), asksFor(holder, 1)...)...), 2)
	found, refused := c.Preempt(Problem{Now: at, Rows: c.rows}, Sacrifice{Ask: asksFor(urgent, 1)[0]})
	if refused != nil || len(found.Victims) != 1 || found.Victims[0].Ask.Workload != holder.ID {
		t.Fatalf("%v %+v", refused, found)
	}
}

func TestCase_G6_VictimMustHoldTheRightModel(t *testing.T) {
	victim := gpuWorkload("victim", 1, psg.DeviceAsk{Name: "nvidia/gpu/T4", Count: 1, MilliGPU: 1000})
	victim.Priority, victim.Preemptible = 1, true
	urgent := gpuWorkload("urgent", 1, psg.DeviceAsk{Name: "nvidia/gpu/A100", Count: 1, MilliGPU: 1000})
	n := gpuNode("n1", "T4", 2)
	n.Devices[1].Model, n.Devices[1].Foreign = "A100", true
	c := newCluster(Config{}, victim, urgent, n)
	wantPlaced(t, c.commit(asksFor(victim, 1)...), 1)
	if found, refused := c.Preempt(Problem{Now: at, Rows: c.rows}, Sacrifice{Ask: asksFor(urgent, 1)[0]}); refused == nil {
		t.Errorf("%+v", found)
	}
}

func TestPreempt_FewestThenLowestAndNeverProtected(t *testing.T) {
	low, mid, equal, urgent := plainWorkload("low", 2), plainWorkload("mid", 1), plainWorkload("equal", 1), plainWorkload("urgent", 1)
	low.Request[psg.CPU], mid.Request[psg.CPU], equal.Request[psg.CPU], urgent.Request[psg.CPU] = 2000, 4000, 4000, 4000
	low.Priority, mid.Priority, equal.Priority, urgent.Priority = 1, 40, 50, 50
	low.Preemptible, mid.Preemptible, equal.Preemptible = true, true, true
	c := newCluster(Config{}, low, mid, equal, urgent, plainNode("n1"), plainNode("n2"), plainNode("n3"))
	wantPlaced(t, c.commit(gate(low, "l1", "n1"), gate(low, "l2", "n1"), gate(mid, "m1", "n2"), gate(equal, "e1", "n3")), 4)
	want := func(rulings map[psg.WorkloadID]*psg.Ruling, victims ...psg.RequestID) {
		t.Helper()
		found, refused := c.Preempt(Problem{Now: at, Rows: c.rows, Rulings: rulings}, Sacrifice{Ask: asksFor(urgent, 1)[0]})
		var got []psg.RequestID
		for _, v := range found.Victims {
			got = append(got, v.Ask.ID)
		}
		if (refused == nil) != (len(victims) > 0) || !slices.Equal(got, victims) {
			t.Errorf("victims %v, want %v", got, victims)
		}
	}
	protect := func(w psg.Workload) *psg.Ruling {
		return &psg.Ruling{Workload: w.ID, Protected: []psg.Reason{{Source: "policy p", Text: "no"}}}
	}
	want(nil, "m1") // one, though of higher priority than the two
	want(map[psg.WorkloadID]*psg.Ruling{mid.ID: protect(mid)}, "l1", "l2")
	want(map[psg.WorkloadID]*psg.Ruling{mid.ID: protect(mid), low.ID: protect(low)})
}

func TestPreempt_ManyVictimsButNoneForNothing(t *testing.T) {
	small, idle, fixed, urgent := plainWorkload("small", 5), plainWorkload("idle", 1), plainWorkload("fixed", 1), plainWorkload("urgent", 1)
	small.Request, idle.Request = psg.Resources{psg.CPU: 700}, psg.Resources{psg.Disk: 10}
	fixed.Request, urgent.Request = psg.Resources{psg.CPU: 500}, psg.Resources{psg.CPU: 2500}
	small.Priority, idle.Priority, fixed.Priority = 2, 1, 1
	small.Preemptible, idle.Preemptible = true, true // fixed is not
	c := newCluster(Config{}, small, idle, fixed, urgent, plainNode("n1"))
	wantPlaced(t, c.commit(append(asksFor(small, 5), gate(idle, "i", "n1"), gate(fixed, "f", "n1"))...), 7)
	found, refused := c.Preempt(Problem{Now: at, Rows: c.rows}, Sacrifice{Ask: asksFor(urgent, 1)[0]})
	if refused != nil || len(found.Victims) != 4 {
		t.Fatalf("%v, %d victims", refused, len(found.Victims))
	}
	for _, v := range found.Victims {
		if v.Ask.Workload != small.ID {
			t.Errorf("victim %s frees nothing that is needed", v.Ask.ID)
		}
	}
}

// TestImprove_MoreNodesThanAreTriedMakeNoDifferenceOfTheirHistory tells two engines
// of the same nodes in two orders.
func TestImprove_MoreNodesThanAreTriedMakeNoDifferenceOfTheirHistory(t *testing.T) {
	small, big := plainWorkload("small", mostTries+20), plainWorkload("big", 1)
	big.Request = psg.Resources{psg.CPU: 4000, psg.Memory: 256, psg.MemoryMax: 256}
	var found []psg.NodeID
	for _, reversed := range []bool{false, true} {
		c := newCluster(Config{}, small, big)
		for i := range mostTries + 20 {
			if reversed {
				i = mostTries + 20 - 1 - i
			}
			node := plainNode(fmt.Sprintf("n%03d", i))
			c.addNode(node)
			ask := psg.Ask{ID: psg.RequestID(fmt.Sprintf("small-%03d", i)), Workload: small.ID, At: at}
			c.Apply(psg.Placed{Placement: psg.Placement{Ask: ask, Node: node.ID, State: psg.Running, Request: small.Request}})
		}
		m := c.improve(1, asksFor(big, 1)...)
		if len(m.Placements) != 1 {
			t.Fatalf("%d moves, nothing placed", len(m.Moves))
		}
		found = append(found, m.Placements[0].Node)
	}
	if found[0] != found[1] {
		t.Errorf("room is made on %s and on %s", found[0], found[1])
	}
}

func TestImprove_AllThatMakesRoomForAnAskIsOneChain(t *testing.T) {
	small, large := prefers("small", "", 2000), prefers("large", "", 4000)
	small.Count, large.Count = 4, 2
	small.Migrate = &psg.Migrate{MaxParallel: 4}
	c := newCluster(Config{}, small, large)
	for i, memoryMB := range []int64{4000, 4000, 2000, 2000, 2000, 2000} {
		c.addNode(classNode(fmt.Sprintf("n%d", i+1), "", memoryMB))
	}
	wantPlaced(t, c.commit(gate(small, "s1", "n1"), gate(small, "s2", "n1"), gate(small, "s3", "n2"), gate(small, "s4", "n2")), 4)
	m := c.improve(4, asksFor(large, 2)...)
	var chains []int
	for _, move := range m.Moves {
		chains = append(chains, move.Chain)
	}
	if !slices.Equal(chains, []int{1, 1, 2, 2}) || m.Moves[1].For != m.Moves[0].For || m.Moves[2].For != m.Moves[3].For {
		t.Errorf("%+v", m.Moves)
	}
	c.carry(t, m)
}
