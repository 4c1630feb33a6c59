package placement

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"testing"

	"github.com/psgrid/psg"
)

// cost is what a set of victims is compared by.
type cost struct{ count, highest, sum int }

func (a cost) less(b cost) bool {
	return cmp.Or(cmp.Compare(a.count, b.count), cmp.Compare(a.highest, b.highest), cmp.Compare(a.sum, b.sum)) < 0
}

func (w *world) costOf(victims []psg.Placement) cost {
	c := cost{count: len(victims)}
	for _, v := range victims {
		priority := w.twin.workloads[v.Ask.Workload].Priority
		c.highest, c.sum = max(c.highest, priority), c.sum+priority
	}
	return c
}

// mayEnd is whether anybody may preempt a workload's instances.
func (w *world) mayEnd(v psg.Workload) bool {
	return v.Preemptible && v.Labels[psg.ManagedLabel] != "false" && !w.protected[v.ID]
}

// cheapest tries every set of victims on every node.
func (w *world) cheapest(d psg.Workload) (best cost, found bool) {
	all := w.placements
	defer func() { w.placements = all }()
	for _, n := range w.nodes {
		var may []psg.Placement
		for _, p := range all {
			v := w.twin.workloads[p.Ask.Workload]
			if p.Node == n.ID && w.mayEnd(v) && v.Priority < d.Priority {
				may = append(may, p)
			}
		}
		for set := range 1 << len(may) {
			var victims []psg.Placement
			for i, p := range may {
				if set>>i&1 == 1 {
					victims = append(victims, p)
				}
			}
			next := w.costOf(victims)
			if found && !next.less(best) {
				continue
			}
			w.placements = slices.DeleteFunc(slices.Clone(all), func(p psg.Placement) bool {
				return slices.ContainsFunc(victims, func(v psg.Placement) bool { return v.Ask.ID == p.Ask.ID })
			})
			if w.fits(d, n) {
				best, found = next, true
			}
		}
	}
	return best, found
}

// crowdedWorld has placed some rounds of asks; most of its workloads may be ended.
func crowdedWorld(t *testing.T, seed uint64, rounds int) *world {
	t.Helper()
	w := newWorld(seed)
	for range rounds {
		p := w.problem()
		plan := w.Solve(p)
		w.agree(t, p, plan)
		for _, q := range plan.Placements {
			w.Apply(psg.Placed{Placement: q})
		}
	}
	for i, id := range w.ids() {
		d := w.twin.workloads[id]
		d.Preemptible, d.Priority = i%4 > 0, 1+i%5
		w.twin.workloads[id] = d
		w.Apply(psg.WorkloadChanged{Workload: d})
	}
	return w
}

func TestPreempt_AgreesWithEverySetOfVictims(t *testing.T) {
	sizes := map[int]int{}
	for seed := range uint64(120) {
		w := crowdedWorld(t, seed, 8)
		if seed >= 60 {
			w.bind()
		}
		p := w.problem()
		if seed >= 60 {
			w.protect(p)
		}
		for _, id := range w.ids() { // who want more than anybody
			d := w.twin.workloads[id]
			d.ID.Job += "-big"
			d.Priority, d.Ports, d.Gang = 9, nil, ""
			d.Request = psg.Resources{psg.CPU: int64(600 + 200*w.rng.IntN(6)), psg.Memory: int64(500 + 300*w.rng.IntN(5))}
			w.twin.workloads[d.ID], w.denied[d.ID] = d, map[psg.NodeID]bool{}
			w.Apply(psg.WorkloadChanged{Workload: d})
		}
		for _, id := range w.ids() {
			d := w.twin.workloads[id]
			if d.Gang != "" {
				continue
			}
			got, refused := w.Preempt(p, Sacrifice{Ask: psg.Ask{ID: "urgent", Workload: id, At: at}})
			if again, _ := w.afresh().Preempt(p, Sacrifice{Ask: psg.Ask{ID: "urgent", Workload: id, At: at}}); mustJSON(t, again) != mustJSON(t, got) {
				t.Fatalf("seed %d: %s\nafresh:\n%s", seed, mustJSON(t, got), mustJSON(t, again))
			}
			want, possible := w.cheapest(d)
			if (refused == nil) != possible || possible && w.costOf(got.Victims) != want {
				t.Fatalf("seed %d, %+v: %v, victims %+v, want %+v", seed, d, refused, got.Victims, want)
			}
			if possible {
				sizes[want.count]++
			}
		}
	}
	if sizes[1] < 50 || sizes[2] < 20 || sizes[3]+sizes[4] < 5 {
		t.Errorf("victims %v: the test shows little", sizes)
	}
}

func TestPreempt_NobodyMakesWayTwice(t *testing.T) {
	low, urgent := plainWorkload("low", 1), plainWorkload("urgent", 2)
	low.Priority, low.Preemptible, urgent.Priority = 1, true, 90
	low.Request[psg.CPU], urgent.Request[psg.CPU] = 4000, 4000
	c := newCluster(Config{}, low, urgent, plainNode("n1"))
	wantPlaced(t, c.commit(gate(low, "l1", "n1")), 1)
	asks := asksFor(urgent, 2)
	found, refused := c.Preempt(Problem{Now: at, Rows: c.rows}, Sacrifice{Ask: asks[0]})
	if refused != nil {
		t.Fatal(refused.Summary)
	}
	claim := found.Placements[0]
	claim.State, claim.Victims = psg.Reserved, []psg.RequestID{"l1"}
	c.Apply(psg.Placed{Placement: claim})
	if again, refused := c.Preempt(Problem{Now: at, Rows: c.rows}, Sacrifice{Ask: asks[1]}); refused == nil {
		t.Fatalf("%+v", again)
	}
	c.Apply(psg.Freed{Ask: "l1", State: psg.Released, At: at})
	wantPlaced(t, c.solve(asks[1]), 0)                                                               // the room is the claim's
	wantPlaced(t, c.solve(psg.Ask{ID: "g", Alloc: "g", Workload: urgent.ID, Node: "n1", At: at}), 0) // and not to be redeemed yet
}

func TestPreempt_SaysWhyNot(t *testing.T) {
	low, equal, urgent, gang := plainWorkload("low", 2), plainWorkload("equal", 1), plainWorkload("urgent", 1), plainWorkload("gang", 2)
	low.Priority, low.Preemptible, equal.Preemptible, gang.Gang = 1, true, true, "g"
	pair := asksFor(gang, 2)
	low.Request[psg.CPU], equal.Request[psg.CPU] = 2000, 4000
	urgent.Request[psg.CPU], gang.Request[psg.CPU] = 4000, 4000
	c := newCluster(Config{}, low, equal, urgent, gang, plainNode("n1"), plainNode("n2"))
	wantPlaced(t, c.commit(gate(low, "l1", "n1"), gate(low, "l2", "n1"), gate(equal, "e1", "n2")), 3)
	for want, ask := range map[string]Sacrifice{
		"preemption: it takes 2 victims, on n1, and at most 1 are allowed":                                              {Ask: asksFor(urgent, 1)[0], Most: 1},
		"preemption: it would not fit n2, whatever of lower priority that is preemptible and not protected ended there": {Ask: asksFor(urgent, 1)[0], Node: "n2"},
		"preemption: node n9 is not known":                                                                                  {Ask: asksFor(urgent, 1)[0], Node: "n9"},
		"preemption: gang g is not complete: default/gang/main has 1 of 2 instances":                                        {Ask: pair[0], Gang: pair[:1]},
		"preemption: not all 2 of gang g would fit, whatever of lower priority that is preemptible and not protected ended": {Ask: pair[0], Gang: pair},
		"workload: not known yet": {Ask: psg.Ask{ID: "x", Workload: psg.WorkloadID{Job: "none"}}},
	} {
		if _, refused := c.Preempt(Problem{Now: at, Rows: c.rows}, ask); refused == nil || refused.Summary != want {
			t.Errorf("%+v, want %q", refused, want)
		}
	}
	spent := Problem{Now: at, Rows: c.rows, Stop: func() bool { return true }}
	if _, refused := c.Preempt(spent, Sacrifice{Ask: asksFor(urgent, 1)[0]}); refused == nil || refused.Summary != "preemption: no victims were found in the time there was" {
		t.Errorf("%+v", refused)
	}
}

// TestPreempt_NeverGoesInCircles lets what was stopped take its room back by
// preemption itself: it cannot, since each victim's priority is lower.
func TestPreempt_NeverGoesInCircles(t *testing.T) {
	things := []any{plainNode("n1")}
	var workloads []psg.Workload
	for i := range 6 {
		w := plainWorkload(fmt.Sprintf("w%d", i), 1)
		w.Priority, w.Preemptible = 1+i/2, true
		w.Request[psg.CPU] = 4000
		workloads = append(workloads, w)
		things = append(things, w)
	}
	c := newCluster(Config{}, things...)
	wantPlaced(t, c.commit(asksFor(workloads[0], 1)...), 1)
	holds, steps := 0, 0
	for round := range 60 {
		next := round * 7 % len(workloads)
		found, refused := c.Preempt(Problem{Now: at, Rows: c.rows}, Sacrifice{Ask: asksFor(workloads[next], 1)[0]})
		if refused != nil || len(found.Victims) == 0 {
			continue
		}
		if workloads[next].Priority <= workloads[holds].Priority {
			t.Fatalf("%d preempted %d", next, holds)
		}
		for _, v := range found.Victims {
			c.Apply(psg.Freed{Ask: v.Ask.ID, State: psg.Released, At: at})
		}
		c.Apply(psg.Placed{Placement: found.Placements[0]})
		holds, steps = next, steps+1
	}
	if steps == 0 || steps > 2 {
		t.Errorf("%d preemptions among three priorities", steps)
	}
}

func TestMIG_SlicesOfWhoWaitsStayTaken(t *testing.T) {
	n := gpuNode("n1", "A100", 1)
	n.Devices[0].MemoryMB, n.Devices[0].Profiles = 40960, []string{"1g.5gb", "7g.40gb"}
	whole := gpuWorkload("whole", 2, psg.DeviceAsk{Name: "gpu", Count: 1, Profile: "7g.40gb"})
	c := newCluster(Config{}, n, whole)
	plan := c.commit(asksFor(whole, 1)...)
	wantPlaced(t, plan, 1)
	waits := plan.Placements[0]
	waits.Ask.ID, waits.State, waits.Victims = "later", psg.Reserved, []psg.RequestID{plan.Placements[0].Ask.ID}
	c.Apply(psg.Placed{Placement: waits})
	c.Apply(psg.Freed{Ask: plan.Placements[0].Ask.ID, State: psg.Released, At: at})
	if taken := bits.OnesCount8(c.nodes["n1"].cards[0].slices); taken != 8 {
		t.Errorf("%d slices are taken, want all", taken)
	}
	c.Apply(psg.Freed{Ask: "later", State: psg.Released, At: at})
	if taken := c.nodes["n1"].cards[0].slices; taken != 0 {
		t.Errorf("slices %b are taken still", taken)
	}
}

func TestPreempt_ASystemWorkloadGetsRoomOnTheNodeOfItsAsk(t *testing.T) {
	w, low := plainWorkload("sys", 1), plainWorkload("low", 1)
	w.Type, w.Priority = psg.System, 90
	low.Priority, low.Preemptible, low.Request[psg.CPU] = 1, true, 4000
	c := newCluster(Config{}, w, low, plainNode("n1"), plainNode("n2"))
	wantPlaced(t, c.commit(gate(low, "l", "n1")), 1)
	found, refused := c.Preempt(Problem{Now: at, Rows: c.rows}, Sacrifice{Ask: gate(w, "s", "n1")})
	if refused != nil || len(found.Victims) != 1 || found.Placements[0].Node != "n1" {
		t.Errorf("%+v %+v, want l to make way on n1", found, refused)
	}
	if found, refused = c.Preempt(Problem{Now: at, Rows: c.rows}, Sacrifice{Ask: gate(w, "s", "n1"), Node: "n2"}); refused == nil {
		t.Errorf("%+v, but it is for n1", found)
	}
}
