package controller

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

// TestSteer_WaitsForWhatIsJustStarting: a version registered while an allocation
// of the job starts leaves Nomad's deployment without an end.
func TestSteer_WaitsForWhatIsJustStarting(t *testing.T) {
	big, web := workload("big", "service", 4000), workload("web", "service", 1024)
	web.Count = 2
	w := newWorld(t, tempLog(t), jobs{big.ID: big, web.ID: web})
	w.report(psg.NodeChanged{Node: testNode("n1")}, psg.NodeChanged{Node: testNode("n2")})
	w.place(0, gate(big, "b", "n1"))
	w.now = time.Now()
	w.place(0, gate(web, "w1", "n2"))
	w.place(0, gate(web, "w2", "n1"))
	if err := w.mayRegister(web.ID.JobID())(); !errors.Is(err, psg.ErrBusy) {
		t.Errorf("while w1 starts: %v, want %v", err, psg.ErrBusy)
	}
	nomad := &director{}
	var ran atomic.Bool
	nomad.onSteer = func(psg.Steering) {
		if !ran.Load() {
			t.Error("steered while w1 starts")
		}
	}
	looked := time.Now().Add(2 * startsLook)
	w.directed(nomad, "w2 is stopped", func() bool {
		if !ran.Load() && time.Now().After(looked) {
			ran.Store(true)
			w.report(psg.Moved{Ask: "w1", State: psg.Running, At: w.now})
		}
		_, stopped := nomad.told()
		return len(stopped) == 1
	})
}

func TestStarting_EndsInTime(t *testing.T) {
	at := func(state psg.State, alloc psg.AllocID, since time.Time) []psg.AskStatus {
		return []psg.AskStatus{{Ask: psg.Ask{Alloc: alloc}, State: state, Placement: &psg.Placement{Since: since}}}
	}
	for name, test := range map[string]struct {
		asks []psg.AskStatus
		want bool
	}{
		"granted just now":      {at(psg.Granted, "a", start), true},
		"granted a while ago":   {at(psg.Granted, "a", start.Add(-startsWithin)), false},
		"runs":                  {at(psg.Running, "a", start), false},
		"room without a task":   {at(psg.Reserved, "", start), false},
		"waits, without a room": {[]psg.AskStatus{{Ask: psg.Ask{Alloc: "a"}, State: psg.Elsewhere}}, false},
	} {
		if got := starting(test.asks, start); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
