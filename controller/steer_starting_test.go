package controller

import (
	"context"
	"errors"
	"fmt"
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

func TestStarting_IsNotWaitedForWithoutEnd(t *testing.T) {
	s, job := newSteers(), psg.JobID{Namespace: "default", Job: "web"}
	now := start
	ask := func(after time.Duration, starts, waits, enough bool) {
		t.Helper()
		now = now.Add(after)
		if w, e := s.awaits(job, starts, now); w != waits || e != enough {
			t.Errorf("after %v: waits %t, says so %t; want %t, %t", now.Sub(start), w, e, waits, enough)
		}
	}
	ask(0, true, true, false)
	ask(startsPatience/2, true, true, false)
	ask(startsPatience/2, true, false, true)
	ask(time.Second, true, false, false)
	ask(time.Second, false, false, false)
	ask(time.Second, true, true, false) // others start, and are waited for anew
	ask(startsPatience, true, false, true)
	s.wrote(job, true)
	ask(0, true, true, false) // as they are by the next change
	ask(stageEvery+time.Second, true, true, false)
	if s.due(now); s.jobs[job] == nil {
		t.Error("forgets since when it is waited for")
	}
	if s.due(now.Add(stageEvery + time.Second)); s.jobs[job] != nil {
		t.Error("remembers it for ever")
	}
}

// restarting is a world where web has a stray, and an instance that is just
// starting, as it has been for so long.
func restarting(t *testing.T, since time.Duration) (*world, psg.Workload) {
	big, web := workload("big", "service", 4000), workload("web", "service", 1024)
	web.Count = 2
	w := newWorld(t, tempLog(t), jobs{big.ID: big, web.ID: web})
	w.report(psg.NodeChanged{Node: testNode("n1")}, psg.NodeChanged{Node: testNode("n2")})
	w.place(0, gate(big, "b", "n1"))
	w.now = time.Now()
	w.place(0, gate(web, "w1", "n2"))
	w.place(0, gate(web, "w2", "n1"))
	w.steers.open(&director{})
	w.steers.jobs[web.ID.JobID()] = &steerJob{waits: time.Now().Add(-since), asked: time.Now(), patient: true}
	return w, web
}

func TestSteer_GoesAheadWhereStartsDoNotEnd(t *testing.T) {
	for since, want := range map[time.Duration]int{0: 0, startsPatience: 1} {
		w, web := restarting(t, since)
		nomad := &director{}
		w.attended(web.ID.JobID(), nomad)
		if steered, stopped := nomad.told(); len(steered) != want || len(stopped) != want {
			t.Errorf("after %v: steered %+v, stopped %v; want %d", since, steered, stopped, want)
		}
		if due := w.steers.jobs[web.ID.JobID()].due; due.IsZero() {
			t.Errorf("after %v: not looked at again", since)
		}
	}
}

func TestRebalance_ReservesNothingWhileAnInstanceStarts(t *testing.T) {
	for _, first := range []*psg.Disruption{nil, {Order: psg.StopFirst, MaxUnavailable: 1}} {
		w, web := shiftable3(t, first)
		web.Count = 4
		w.report(psg.WorkloadChanged{Workload: web})
		w.now = time.Now()
		w.place(0, gate(web, "w4", "n2"))
		if orders, err := w.rebalanced(&director{}, "n1"); err != nil || len(orders) > 0 {
			t.Errorf("orders %+v, %v; want none while w4 starts", orders, err)
		}
		for _, status := range w.Asks() {
			if hasPrefix(status.Ask.ID, movePrefix) {
				t.Errorf("%s was asked for in vain", status.Ask.ID)
			}
		}
	}
}

func TestHeld_IsNotReleasedWhileAnInstanceStarts(t *testing.T) {
	web := workload("web", "service", 100)
	web.Count = 2
	w := newWorld(t, tempLog(t), jobs{web.ID: web})
	w.report(psg.NodeChanged{Node: testNode("n1")})
	w.now = time.Now()
	w.place(0, gate(web, "w1", "n1"), gate(web, "w2", "n1"))
	web.Held, web.Version = true, 2
	w.report(psg.WorkloadChanged{Workload: web})
	w.cycle()
	nomad := &director{}
	w.steers.open(nomad)
	w.steers.note(web.ID.JobID(), time.Now())
	w.attended(web.ID.JobID(), nomad)
	if steered, _ := nomad.told(); len(steered) != 0 {
		t.Errorf("released %+v while its instances start", steered)
	}
	w.report(psg.Moved{Ask: "w1", State: psg.Running, At: w.now}, psg.Moved{Ask: "w2", State: psg.Running, At: w.now})
	w.cycle()
	w.attended(web.ID.JobID(), nomad)
	if steered, _ := nomad.told(); len(steered) != 1 || !steered[0].Release {
		t.Errorf("steered %+v, want it released", steered)
	}
}

// A deployment keeps the hints to a lost node from being taken back, which is no
// reason to leave an allocation at a gate.
func TestSteer_GuidesAlthoughHintsToALostNodeStay(t *testing.T) {
	w := strayOn(t)
	job := workload("web", "service", 1024).ID.JobID()
	nomad := &busyToUnhint{}
	w.steers.open(nomad)
	w.steers.lose(job, "n9", time.Now().Add(-2*goneWithin))
	w.attended(job, nomad)
	if _, stopped := nomad.told(); len(stopped) != 1 {
		t.Errorf("stopped %v, want the stray", stopped)
	}
	if gone, _ := w.steers.goneFrom(job); len(gone) != 1 || w.steers.jobs[job].due.IsZero() || w.steers.jobs[job].failed > 0 {
		t.Errorf("gone %v, %+v; want the hints looked at again", gone, w.steers.jobs[job])
	}
}

// busyToUnhint does not take hints to lost nodes back.
type busyToUnhint struct{ director }

func (d *busyToUnhint) Steer(ctx context.Context, s psg.Steering, leads func() error) (bool, error) {
	if len(s.Gone) > 0 {
		return false, fmt.Errorf("a deployment runs: %w", psg.ErrBusy)
	}
	return d.director.Steer(ctx, s, leads)
}
