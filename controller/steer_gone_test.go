package controller

import (
	"slices"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

// TestSteer_RemembersANodeThatIsLostWhileHintsAreTakenBack: one change served those
// that were lost before it.
func TestSteer_RemembersANodeThatIsLostWhileHintsAreTakenBack(t *testing.T) {
	w := strayOn(t)
	job := workload("web", "service", 1024).ID.JobID()
	nomad := &director{}
	w.steers.open(nomad)
	w.steers.lose(job, "n8", time.Now().Add(-2*goneWithin))
	nomad.onSteer = func(s psg.Steering) {
		if slices.Equal(s.Gone, []psg.NodeID{"n8"}) {
			w.steers.lose(job, "n9", time.Now().Add(-2*goneWithin))
		}
	}
	w.attended(job, nomad)
	if gone, _ := w.steers.goneFrom(job); !slices.Equal(gone, []psg.NodeID{"n9"}) {
		t.Errorf("gone %v, want the one that was lost meanwhile", gone)
	}
}

// TestSteer_LooksAgainAfterAStrayWhoseRoomWasTaken: where it is planned may not
// change by that.
func TestSteer_LooksAgainAfterAStrayWhoseRoomWasTaken(t *testing.T) {
	w := strayOn(t)
	job := workload("web", "service", 1024).ID.JobID()
	filler := workload("filler", "service", 4000)
	w.report(psg.WorkloadChanged{Workload: filler}, psg.NodeGone{Node: "n3"})
	w.cycle()
	_, asks := w.job(job)
	w.place(0, gate(filler, "f", "n2"))
	nomad := &director{unchange: true}
	w.steers.open(nomad)
	w.steers.note(job, time.Now())
	w.steers.due(time.Now().Add(time.Minute))
	w.during(func() {
		if err := w.guide(t.Context(), job, asks, nomad); err != nil {
			t.Error(err)
		}
	})
	if _, stopped := nomad.told(); len(stopped) > 0 {
		t.Fatalf("stopped %v without room for it", stopped)
	}
	if noted := w.steers.jobs[job]; noted.due.IsZero() || noted.budget.full.After(time.Now()) {
		t.Errorf("%+v; want it looked at again, and nothing spent", noted)
	}
}
