package placement

import (
	"fmt"
	"testing"

	"github.com/psgrid/psg"
)

// TestSetLimits_EqualsAnEngineMadeWithThem changes the limits of a cluster in use.
func TestSetLimits_EqualsAnEngineMadeWithThem(t *testing.T) {
	var things []any
	var workloads []psg.Workload
	for i := range 6 {
		w := plainWorkload(fmt.Sprintf("w%d", i), 8)
		w.Labels = map[string]string{"group": []string{"db", "web"}[i%2], "tier": fmt.Sprint(i % 3)}
		workloads = append(workloads, w)
		things = append(things, w, plainNode(fmt.Sprintf("n%d", i)))
	}
	used := newCluster(Config{}, things...)
	var asks []psg.Ask
	for _, w := range workloads {
		wantPlaced(t, used.commit(asksFor(w, 2)...), 2)
		asks = append(asks, asksFor(w, 6)[2:]...)
	}
	used.solve(asks...) // every class has its order
	used.solve(asks...)
	for _, limits := range [][]psg.Limit{
		{{Name: "db", Match: map[string]string{"group": "db"}, PerNode: 2}},
		{{Name: "db", Match: map[string]string{"group": "db"}, PerNode: 1, Soft: true}, {Name: "t1", Match: map[string]string{"tier": "1"}, Total: 5}},
		{{Name: "t0", Match: map[string]string{"tier": "0", "group": "db"}, Total: 3}},
		nil,
	} {
		used.SetLimits(limits)
		fresh := newCluster(Config{Limits: limits}, things...)
		for _, h := range used.held {
			fresh.Apply(psg.Placed{Placement: h.placement})
		}
		for range 2 { // without and with an order
			got, want := mustJSON(t, used.solve(asks...)), mustJSON(t, fresh.solve(asks...))
			if got != want {
				t.Fatalf("under %+v\n%s\nan engine made with them:\n%s", limits, got, want)
			}
		}
	}
}

// TestSolve_ForgetsRulingsThatAreGivenNoLonger has policy, or a trial, say something
// else each time.
func TestSolve_ForgetsRulingsThatAreGivenNoLonger(t *testing.T) {
	w := plainWorkload("web", 1)
	c := newCluster(Config{}, w, plainNode("n1"))
	trial := func(round int) {
		trial := c.Try(Problem{Now: at, Asks: asksFor(w, 1), Rows: c.rows, Rulings: c.rulings})
		defer trial.End()
		for i := range 5 {
			ruling := psg.Ruling{Workload: w.ID, Scorings: []psg.Scoring{{Points: int64(10*round + i), Rows: psg.Bitmap{1}}}}
			trial.Again(Retry{Asks: []psg.RequestID{"web-000"}, Rulings: map[psg.WorkloadID]*psg.Ruling{w.ID: &ruling}})
		}
	}
	for i := range 1000 {
		trial(i)
	}
	if n := len(c.Engine.rulings.known); n > 2*sweepAfter {
		t.Errorf("%d rulings are remembered for one workload", n)
	}
}
