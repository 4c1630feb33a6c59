package controller

import (
	"errors"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

// spentAll reports whether a job may not be changed just now.
func (s *steers) spentAll(id psg.JobID) bool { return s.mayChangeAt(id).After(time.Now()) }

func TestBudget_ThreeAtOnceThenOneAMinute(t *testing.T) {
	now := time.Now()
	var b budget
	for i := range maxStages {
		if !b.spend(now.Add(time.Duration(i) * time.Second)) {
			t.Fatalf("change %d is refused", i)
		}
	}
	for i := range 3 {
		next := now.Add(time.Duration(i+1) * stageEvery)
		if b.spend(next.Add(-time.Millisecond)) {
			t.Errorf("one more within %d min", i+1)
		}
		if !b.next().Equal(next) || !b.spend(next) {
			t.Errorf("the next is at %v, want %v", b.next(), next)
		}
	}
	b.refund()
	if last := now.Add(3 * stageEvery); !b.spend(last) || b.spend(last) {
		t.Error("what was given back is not there, or more is")
	}
}

func TestSteer_LooksAgainWhenTheNextChangeMayBeMade(t *testing.T) {
	w := strayOn(t)
	job, nomad := workload("web", "service", 1024).ID.JobID(), &director{}
	w.steers.open(nomad)
	w.steers.note(job, time.Now())
	for range maxStages {
		if err := w.spend(job, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	w.steers.due(time.Now().Add(time.Minute))
	w.attended(job, nomad)
	if _, stopped := nomad.told(); len(stopped) > 0 {
		t.Errorf("stopped %v", stopped)
	}
	if due, next := w.steers.jobs[job].due, w.steers.mayChangeAt(job); !due.Equal(next) {
		t.Errorf("due at %v, want %v", due, next)
	}
}

// Three changes of a job in a row delayed the first of one that was registered by its
// name once it was purged, also while the allocations of the old one were still ending.
func TestSteer_WhatIsRegisteredByTheNameOfAJobThatEndedHasChangesOfItsOwn(t *testing.T) {
	web := workload("web", "service", 1024)
	job := web.ID.JobID()
	for name, ends := range map[string][]psg.Delta{
		"purged while it runs": {psg.WorkloadGone{Workload: web.ID}, psg.WorkloadChanged{Workload: web}},
		"purged once it ended": {psg.Freed{Ask: "w", State: psg.Released, At: start}, psg.WorkloadGone{Workload: web.ID}},
	} {
		w := strayOn(t)
		w.steers.open(&director{})
		w.steers.note(job, time.Now())
		for w.spend(job, time.Now()) == nil {
		}
		w.report(psg.WorkloadChanged{Workload: web})
		w.cycle()
		if err := w.spend(job, time.Now()); !errors.Is(err, errSpent) || !errors.Is(err, psg.ErrBusy) {
			t.Fatalf("%v, want errSpent: it is the same job", err)
		}
		for _, d := range ends {
			w.report(d)
			w.cycle()
		}
		if err := w.spend(job, time.Now()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
