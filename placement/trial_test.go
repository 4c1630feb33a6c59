package placement

import (
	"slices"
	"testing"

	"github.com/psgrid/psg"
)

// otherRulings deny each of some workloads other rows.
func (w *world) otherRulings(p Problem, of psg.GangID) map[psg.WorkloadID]*psg.Ruling {
	anew := map[psg.WorkloadID]*psg.Ruling{}
	for _, id := range w.ids() {
		if w.twin.workloads[id].Gang == of && w.rng.IntN(3) > 0 {
			ruling := *p.Rulings[id]
			ruling.Denials = []psg.Denial{{Reason: psg.Reason{Source: "policy p", Text: "not now"}, Rows: psg.Bitmap{w.rng.Uint64() & (1<<len(p.Rows) - 1)}}}
			anew[id] = &ruling
		}
	}
	return anew
}

// TestTrial_PlacesAGangAnewAndLeavesTheEngineAsItWas has a gang placed anew again
// and again, from a random member on, under random rulings.
func TestTrial_PlacesAGangAnewAndLeavesTheEngineAsItWas(t *testing.T) {
	placed, refused := 0, 0
	for seed := range uint64(300) {
		w := newWorld(7000 + seed)
		if seed >= 200 {
			w.bind()
			w.part()
		}
		for i, id := range w.ids() {
			if d := w.twin.workloads[id]; i%2 == 0 {
				d.Gang, d.Count = "g", 1
				w.twin.workloads[id] = d
				w.Apply(psg.WorkloadChanged{Workload: d})
			}
		}
		p := w.problem()
		want := mustJSON(t, w.afresh().Solve(p))
		trial := w.Try(p)
		var others, gang []psg.Placement
		for _, q := range trial.Plan().Placements {
			if w.twin.workloads[q.Ask.Workload].Gang == "g" {
				gang = append(gang, q)
			} else {
				others = append(others, q)
			}
		}
		for len(gang) > 0 {
			r := Retry{Gang: "g", Keep: w.rng.IntN(len(gang) + 1), Rulings: w.otherRulings(p, "g")}
			for _, q := range gang {
				r.Asks = append(r.Asks, q.Ask.ID)
			}
			plan := trial.Again(r)
			w.checkAgain(t, p, r, gang, plan)
			w.allStand(t, trial.Plan().Placements)
			if whole := mustJSON(t, trial.Plan().Placements); len(plan.Placements) == 0 && whole != mustJSON(t, append([]psg.Placement{}, others...)) {
				t.Fatalf("seed %d: without the gang the plan is %s", seed, whole)
			}
			placed, refused = placed+len(plan.Placements), refused+len(plan.Refusals)
			gang = plan.Placements
			if w.rng.IntN(8) == 0 {
				break
			}
		}
		trial.End()
		if got := mustJSON(t, w.Solve(p)); got != want {
			t.Fatalf("seed %d: afterwards it says\n%s\nwant\n%s", seed, got, want)
		}
	}
	if placed < 30 || refused < 30 {
		t.Errorf("%d placed, %d refused: the test shows little", placed, refused)
	}
}

// allStand checks that each placement may be where it is beside all others, policy
// apart.
func (w *world) allStand(t *testing.T, all []psg.Placement) {
	t.Helper()
	before, denied := w.placements, w.denied
	defer func() { w.placements, w.denied = before, denied }()
	w.denied = nil
	for i, q := range all {
		w.placements = slices.Concat(before, all[:i], all[i+1:])
		if d := w.twin.workloads[q.Ask.Workload]; !w.fits(d, w.node(q.Node)) {
			t.Fatalf("%s (%+v) may not be on %s", q.Ask.ID, d, q.Node)
		}
	}
}

// checkAgain checks that a gang is whole, that what was to stay has stayed, and
// that nothing is where it may not be.
func (w *world) checkAgain(t *testing.T, p Problem, r Retry, before []psg.Placement, plan psg.Plan) {
	t.Helper()
	if len(plan.Placements) > 0 && len(plan.Placements) != len(r.Asks) || len(plan.Placements)+len(plan.Refusals) != len(r.Asks) {
		t.Fatalf("of %d asks %d are placed and %d refused", len(r.Asks), len(plan.Placements), len(plan.Refusals))
	}
	for i, q := range plan.Placements {
		if i < r.Keep {
			if mustJSON(t, q) != mustJSON(t, before[i]) {
				t.Fatalf("%s moved from %s to %s", q.Ask.ID, before[i].Node, q.Node)
			}
			continue
		}
		ruling := r.Rulings[q.Ask.Workload]
		if ruling == nil {
			ruling = p.Rulings[q.Ask.Workload]
		}
		for row, node := range p.Rows {
			if node == q.Node && len(ruling.Why(row)) > 0 {
				t.Fatalf("%s is on %s, which is denied", q.Ask.ID, node)
			}
		}
	}
}

func TestTrial_GivesBackTheReservationsThatAGangUsed(t *testing.T) {
	w := plainWorkload("gang", 2)
	w.Gang = "g"
	c := newCluster(Config{}, w, plainNode("n1"))
	wantPlaced(t, c.commit(hold(w, "r1"), hold(w, "r2")), 2)
	p := Problem{Now: at, Asks: []psg.Ask{gate(w, "a1", "n1"), gate(w, "a2", "n1")}}
	trial := c.Try(p)
	if plan := trial.Plan(); len(plan.Placements) != 2 || len(plan.Consumed) != 2 {
		t.Fatalf("%+v", plan)
	}
	for keep := range 3 {
		if plan := trial.Again(Retry{Gang: "g", Asks: []psg.RequestID{"a1", "a2"}, Keep: keep}); len(plan.Placements) != 2 || len(plan.Consumed) != 2 {
			t.Errorf("keeping %d: %+v", keep, plan)
		}
	}
	trial.End()
	if len(c.held) != 2 || c.held["r1"] == nil || c.held["r2"] == nil {
		t.Errorf("%d placements are left, want the reservations", len(c.held))
	}
}

func TestTrial_GoesWhereItIsToldIfItMay(t *testing.T) {
	w := plainWorkload("gang", 2)
	w.Gang = "g"
	c := newCluster(Config{}, w, plainNode("n1"), plainNode("n2"))
	trial := c.Try(Problem{Now: at, Asks: []psg.Ask{hold(w, "a"), hold(w, "b")}})
	defer trial.End()
	on := map[psg.RequestID]psg.NodeID{"a": "n2", "b": "n9"}
	plan := trial.Again(Retry{Gang: "g", Asks: []psg.RequestID{"a", "b"}, On: on})
	if len(plan.Placements) != 2 || plan.Placements[0].Node != "n2" {
		t.Errorf("%+v, want a on n2 and b anywhere", plan)
	}
}

// TestTrial_IsWhatItsPlanComesTo has asks of no gang placed anew one by one, of which
// some use up reservations: an engine that is told the plan holds the same.
func TestTrial_IsWhatItsPlanComesTo(t *testing.T) {
	used := 0
	for seed := range uint64(80) {
		w := newWorld(33_000 + seed)
		for range 4 {
			p := w.problem()
			for i := range p.Asks {
				if ask := &p.Asks[i]; w.rng.IntN(2) == 0 {
					ask.Alloc = psg.AllocID(ask.ID)
				} else {
					ask.Hold = psg.MaxReservationHold
				}
			}
			want := mustJSON(t, w.Solve(p))
			trial := w.Try(p)
			for range 6 {
				if placed := trial.Plan().Placements; len(placed) > 0 {
					trial.Again(Retry{Asks: []psg.RequestID{placed[w.rng.IntN(len(placed))].Ask.ID}, Rulings: w.otherRulings(p, "")})
				}
				w.wantWithinCapacity(t)
				told := w.afresh()
				told.take(trial.Plan())
				for id, n := range w.Engine.nodes {
					if m := told.nodes[id]; w.rooms[n.slot].free != told.rooms[m.slot].free || len(n.held) != len(m.held) {
						t.Fatalf("seed %d: %s is not as the plan says", seed, id)
					}
				}
			}
			trial.End()
			plan := w.Solve(p)
			if got := mustJSON(t, plan); got != want {
				t.Fatalf("seed %d: afterwards it says\n%s\nwant\n%s", seed, got, want)
			}
			used += len(plan.Consumed)
			w.take(plan)
			w.placements = nil
			for _, h := range w.held {
				w.placements = append(w.placements, h.placement)
			}
		}
	}
	if used < 20 {
		t.Errorf("%d reservations used: the test shows little", used)
	}
}

// take has a plan come true.
func (e *Engine) take(plan psg.Plan) {
	for _, id := range plan.Consumed {
		e.Apply(psg.Freed{Ask: id, State: psg.Released, At: at})
	}
	for _, q := range plan.Placements {
		e.Apply(psg.Placed{Placement: q})
	}
}

// TestTrial_EndsWhenTheEngineIsToldOrAskedAnythingElse: nothing else is to see what
// was only tried.
func TestTrial_EndsWhenTheEngineIsToldOrAskedAnythingElse(t *testing.T) {
	w, other := plainWorkload("web", 3), plainWorkload("other", 1)
	w.Gang, w.Request = "g", psg.Resources{psg.CPU: 1000}
	other.Request = psg.Resources{psg.CPU: 1500}
	placed := psg.Placed{Placement: psg.Placement{Ask: hold(other, "o"), Node: "n1", State: psg.Running, Request: other.Request}}
	p := Problem{Now: at, Rows: []psg.NodeID{"n1"}, Asks: asksFor(w, 3)}
	for name, do := range map[string]func(*cluster){
		"a delta": func(c *cluster) { c.Apply(placed) },
		"limits": func(c *cluster) {
			c.SetLimits([]psg.Limit{{Name: "one", Match: map[string]string{"a": "b"}, Total: 1}})
		},
		"a problem":   func(c *cluster) { c.Solve(Problem{Now: at, Rows: p.Rows, Asks: []psg.Ask{hold(other, "o")}}) },
		"moves":       func(c *cluster) { c.improve(3) },
		"a victim":    func(c *cluster) { c.Preempt(p, Sacrifice{Ask: hold(other, "o")}) },
		"another try": func(c *cluster) { c.Try(p) },
	} {
		t.Run(name, func(t *testing.T) {
			tried, plain := newCluster(Config{}, w, other, plainNode("n1")), newCluster(Config{}, w, other, plainNode("n1"))
			trial := tried.Try(p)
			wantPlaced(t, trial.Plan(), 3)
			do(tried)
			do(plain)
			r := Retry{Gang: "g", Asks: []psg.RequestID{p.Asks[0].ID, p.Asks[1].ID, p.Asks[2].ID}}
			if again := trial.Again(r); len(again.Unreached) != 3 || len(again.Placements)+len(again.Refusals) > 0 {
				t.Errorf("after the trial has ended: %+v", again)
			}
			trial.End()
			tried.wantWithinCapacity(t)
			if got, want := mustJSON(t, tried.Solve(p)), mustJSON(t, plain.Solve(p)); got != want {
				t.Errorf("afterwards it says\n%s\nwant\n%s", got, want)
			}
		})
	}
}
