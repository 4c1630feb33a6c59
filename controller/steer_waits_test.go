package controller

import (
	"errors"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

// dueBy reports whether a job is looked at again within a time.
func (s *steers) dueBy(job psg.JobID, within time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	noted := s.jobs[job]
	return noted != nil && !noted.due.IsZero() && noted.due.Before(time.Now().Add(within))
}

// TestSteer_LooksAtWhatWaitedForAShift: a stray of another group was looked at while
// the shift ran, and there is no more news of it.
func TestSteer_LooksAtWhatWaitedForAShift(t *testing.T) {
	for _, end := range []psg.ShiftState{psg.ShiftDone, psg.ShiftFailed, psg.ShiftGone} {
		w, web, nomad := begunShift(t)
		job := web.ID.JobID()
		w.steers.open(nomad)
		w.steers.begin(job, &shift{workload: web.ID, from: "n1", until: time.Now().Add(time.Hour)}, time.Now())
		w.steers.due(time.Now())
		nomad.says(end)
		w.attended(job, nomad)
		if w.steers.shiftOf(job) != nil || !w.steers.dueBy(job, time.Second) {
			t.Errorf("%s: the job is not looked at once more", end)
		}
	}
}

// TestSteer_LooksAtWhatWaitedForARelease: the job may have strays of groups that are
// not held.
func TestSteer_LooksAtWhatWaitedForARelease(t *testing.T) {
	held := workload("web", "service", 512)
	held.Held = true
	w := newWorld(t, tempLog(t), jobs{held.ID: held})
	w.report(psg.NodeChanged{Node: testNode("n1")}, psg.WorkloadChanged{Workload: held})
	w.cycle()
	w.cycle()
	job, nomad := held.ID.JobID(), &director{}
	w.steers.open(nomad)
	w.steers.note(job, time.Now().Add(-time.Minute))
	w.steers.due(time.Now())
	w.attended(job, nomad)
	if !nomad.last().Release || !w.steers.dueBy(job, 2*stopWithin) {
		t.Errorf("%+v; want it released, and looked at once more", nomad.last())
	}
	nomad.unchange = true
	w.attended(job, nomad)
	if full := w.steers.jobs[job].budget.full; time.Until(full) > stageEvery || time.Until(full) < stageEvery/2 {
		t.Errorf("its changes are all there again at %v, want one counted: the second changed nothing", full)
	}
}

// TestSteer_LosesNoNewsOfAJobThatIsTriedAgain: the news may come while it is.
func TestSteer_LosesNoNewsOfAJobThatIsTriedAgain(t *testing.T) {
	s, job, now := newSteers(), psg.JobID{Job: "web"}, time.Now()
	s.open(&director{})
	s.note(job, now.Add(-settle))
	s.due(now)
	s.done(job, now, errors.New("failed"))
	again := now.Add(steerRetry)
	if due := s.due(again); len(due) != 1 {
		t.Fatalf("due %v, want the job", due)
	}
	s.note(job, again)
	s.done(job, again, nil)
	if due := s.due(again.Add(settle)); len(due) != 1 {
		t.Error("what became known while it was tried again is not looked at")
	}
}

func never() bool { return false }

// TestHeal_TakesTurnsWhereThereIsNoTimeForAll: what is steered waits while jobs are
// healed.
func TestHeal_TakesTurnsWhereThereIsNoTimeForAll(t *testing.T) {
	w := newWorld(t, tempLog(t), jobs{})
	for _, id := range []string{"a", "b", "c"} {
		w.report(psg.WorkloadChanged{Workload: workload(id, "service", 64)})
	}
	w.cycle()
	nomad := &director{}
	one := func() func() bool {
		asked := 0
		return func() bool { asked++; return asked > 1 }
	}
	missing := w.healMissing(t.Context(), nil, one(), nomad)
	for looks := 1; looks <= 3; looks++ {
		if missing = w.healMissing(t.Context(), missing, one(), nomad); len(nomad.healed) != looks {
			t.Fatalf("healed %v in %d looks, want one in each", nomad.healed, looks)
		}
	}
	if nomad.healed[0].Job == nomad.healed[1].Job || nomad.healed[1].Job == nomad.healed[2].Job || nomad.healed[0].Job == nomad.healed[2].Job {
		t.Errorf("healed %v, want each in its turn", nomad.healed)
	}
}

// TestSteer_StopsNothingAgainThatIsEnding: news of the job comes before it has ended,
// and its node has missed nothing yet.
func TestSteer_StopsNothingAgainThatIsEnding(t *testing.T) {
	w := strayOn(t)
	job, nomad := workload("web", "service", 1024).ID.JobID(), &director{}
	w.steers.open(nomad)
	w.steers.note(job, time.Now())
	for range 2 {
		w.attended(job, nomad)
	}
	if _, stopped := nomad.told(); len(stopped) != 1 {
		t.Errorf("stopped %v, want it stopped once", stopped)
	}
	for node, landing := range w.steers.landings {
		if landing.misses > 0 {
			t.Errorf("%s has missed %d", node, landing.misses)
		}
	}
	w.steers.due(time.Now().Add(time.Hour))
	w.steers.jobs[job].stopped["w"] = time.Now().Add(-stopWithin)
	w.attended(job, nomad)
	if _, stopped := nomad.told(); len(stopped) != 2 {
		t.Errorf("stopped %v, want it stopped again once it has not ended", stopped)
	}
}
