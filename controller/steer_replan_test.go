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
						if held, err := w.reserveFor(t.Context(), &stray); !held || err != nil {
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
