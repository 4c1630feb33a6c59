package controller

import (
	"testing"
	"time"

	"github.com/psgrid/psg"
)

// TestSteer_PlansAStrayAnewWhenItsNodeNoLongerTakesIt: where else it may go is all
// that changes, not why it may not stay.
func TestSteer_PlansAStrayAnewWhenItsNodeNoLongerTakesIt(t *testing.T) {
	for name, spoil := range map[string]func(*world){
		"filled": func(w *world) {
			filler := workload("filler", "service", 4000)
			w.report(psg.WorkloadChanged{Workload: filler})
			w.cycle()
			w.place(0, gate(filler, "f", "n2"))
		},
		"shunned": func(w *world) {
			w.steers.mu.Lock()
			defer w.steers.mu.Unlock()
			w.steers.landings["n2"] = &landing{sent: map[psg.JobID]time.Time{}, until: time.Now().Add(time.Hour)}
		},
		"lost": func(w *world) {
			down := testNode("n2")
			down.Ready, down.Version = false, 2
			w.report(psg.NodeChanged{Node: down})
		},
	} {
		for _, reserved := range []bool{false, true} {
			if reserved && name == "filled" {
				continue // it holds the room itself
			}
			t.Run(name+map[bool]string{true: ", with room reserved there"}[reserved], func(t *testing.T) {
				w, nomad := strayOn(t), &director{}
				w.steers.open(nomad)
				stray, _ := w.Ask("w")
				if reserved {
					w.during(func() {
						if _, held, err := w.reserveFor(t.Context(), &stray); !held || err != nil {
							t.Errorf("reserved: %t, %v", held, err)
						}
					})
				}
				order, _ := orderFor(&stray, 1)
				if order.Kind != psg.Steer || order.Node != "n2" {
					t.Fatalf("order %+v, want it planned on n2", order)
				}
				spoil(w)
				w.Wake()
				w.now = time.Now()
				w.cycle()
				if again := w.place(order.Sequence, gate(workload("web", "service", 1024), "w", "n1"))[0]; again.Kind != psg.Steer || again.Node != "n3" {
					t.Fatalf("order %+v, want it planned on n3", again)
				}
				w.attended(stray.Ask.Workload.JobID(), nomad)
				if s := nomad.last(); len(s.Hints["main"]) != 1 || s.Hints["main"]["n3"] != 1 {
					t.Errorf("hinted %+v, want n3 alone", s.Hints)
				}
				if _, stopped := nomad.told(); len(stopped) != 1 {
					t.Errorf("stopped %v, want the stray", stopped)
				}
			})
		}
	}
}

// TestSteer_DoesNotPlanAStrayAnewWithEveryChangeOfLoad: each time is a record and an
// entry of the audit.
func TestSteer_DoesNotPlanAStrayAnewWithEveryChangeOfLoad(t *testing.T) {
	w := strayOn(t)
	planned := func(node psg.NodeID, after time.Duration) psg.NodeID {
		w.now = w.now.Add(after)
		was, _ := w.Ask("w")
		refusal := *was.Refusal
		refusal.Node = node
		for _, d := range w.decisions(psg.Plan{Refusals: []psg.Refusal{refusal}}, w.now) {
			if refused, ok := d.(psg.Refused); ok {
				w.mu.Lock()
				err := w.Controller.state.Fold(refused, was.Sequence+1)
				w.mu.Unlock()
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		now, _ := w.Ask("w")
		return now.Refusal.Node
	}
	for _, step := range []struct {
		best  psg.NodeID
		after time.Duration
		want  psg.NodeID
	}{
		{"n2", 0, "n2"},
		{"n3", time.Second, "n3"}, // the first time at once
		{"n3", time.Second, "n3"},
		{"n2", time.Second, "n3"},
		{"n2", replanEvery, "n2"},
		{"n3", time.Second, "n2"},
	} {
		if got := planned(step.best, step.after); got != step.want {
			t.Errorf("%s is best after %v: planned on %s, want %s", step.best, step.after, got, step.want)
		}
	}
	down := testNode("n2")
	down.Ready, down.Version = false, 2
	w.report(psg.NodeChanged{Node: down})
	taken := w.inbox.take(10)
	w.takeIn(taken, w.now)
	if got := planned("n3", time.Second); got != "n3" {
		t.Errorf("planned on %s, want n3: the other is lost", got)
	}
	if len(w.replanned) != 1 {
		t.Errorf("remembers %v", w.replanned)
	}
	if w.decisions(psg.Plan{}, w.now); len(w.replanned) != 0 {
		t.Errorf("remembers %v of what waits no more", w.replanned)
	}
}

// strayOn is a world of three nodes, the first of which is full, where the only
// instance of web waits.
func strayOn(t *testing.T) *world {
	big, web := workload("big", "service", 4000), workload("web", "service", 1024)
	w := newWorld(t, tempLog(t), jobs{big.ID: big, web.ID: web})
	w.report(psg.NodeChanged{Node: testNode("n1")}, psg.NodeChanged{Node: testNode("n2")}, psg.NodeChanged{Node: testNode("n3")})
	w.place(0, gate(big, "b", "n1"))
	w.place(0, gate(web, "w", "n1"))
	w.steers.note(web.ID.JobID(), time.Now())
	return w
}

// during runs cycles while something is done.
func (w *world) during(do func()) {
	w.Helper()
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	for {
		select {
		case <-done:
			w.cycle()
			return
		default:
			w.cycle()
		}
	}
}
