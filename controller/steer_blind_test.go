package controller

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

// TestSteer_StopsEverMoreRarelyWhatNoHintLeads: Nomad starts each in the same place
// again.
func TestSteer_StopsEverMoreRarelyWhatNoHintLeads(t *testing.T) {
	w := strayOn(t)
	web := workload("web", "service", 1024)
	job := web.ID.JobID()
	nomad := &director{refuse: fmt.Errorf("job \"web\" is a child of \"shop\": %w", psg.ErrUnknown)}
	w.steers.open(nomad)
	again := func(alloc string) {
		t.Helper()
		w.steers.note(job, time.Now())
		w.steers.jobs[job].budget = budget{} // a minute later
		w.attended(job, nomad)
		_, stopped := nomad.told()
		w.report(psg.Freed{Ask: psg.RequestID(stopped[len(stopped)-1]), State: psg.Released, At: start})
		if order := w.place(0, gate(web, alloc, "n1"))[0]; order.Kind != psg.Steer {
			t.Fatalf("%+v, want it steered", order)
		}
	}
	for i := range maxBlind {
		again(fmt.Sprint("w", i))
	}
	w.steers.due(time.Now().Add(time.Minute))
	w.attended(job, nomad)
	if _, stopped := nomad.told(); len(stopped) != maxBlind {
		t.Errorf("stopped %v, want %d and no more for a while", stopped, maxBlind)
	}
	last := psg.RequestID(fmt.Sprint("w", maxBlind-1))
	status, _ := w.Ask(last)
	for _, want := range []string{"no hint leads Nomad there: job \"web\" is a child of \"shop\";", "3 times, again at "} {
		if !strings.Contains(status.Refusal.Summary, want) {
			t.Errorf("its reason is %q, want %q in it", status.Refusal.Summary, want)
		}
	}
	if due := w.steers.jobs[job].due; due.Before(time.Now().Add(blindMin/2)) || due.After(time.Now().Add(blindMin)) {
		t.Errorf("looked at again at %v, want within a minute", due)
	}
	if len(w.Shunned(time.Now())) > 0 || w.steers.landings["n2"] != nil {
		t.Error("the node is blamed for what Nomad was not told")
	}
	nomad.refuse = nil // the user has registered it anew
	web.Version = 2
	w.report(psg.WorkloadChanged{Workload: web})
	w.cycle()
	w.attended(job, nomad)
	if steered, stopped := nomad.told(); len(steered) != 1 || len(stopped) != maxBlind+1 {
		t.Errorf("steered %+v, stopped %v; want it hinted and stopped", steered, stopped)
	}
	w.Wake()
	w.cycle()
	if status, _ := w.Ask(last); status.State == psg.Elsewhere && strings.Contains(status.Refusal.Summary, "no hint") {
		t.Errorf("its reason is still %q", status.Refusal.Summary)
	}
}

func TestBlind_DoublesAndEndsWithAnArrival(t *testing.T) {
	var b *blind
	now, why := start, fmt.Errorf("a child: %w", psg.ErrUnknown)
	for _, want := range []time.Duration{0, 0, time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute, 32 * time.Minute, time.Hour, time.Hour} {
		b = b.after(why, 1, now)
		if wait := b.wait(1, now); wait != want {
			t.Errorf("after %d stops it waits %v, want %v", b.stops, wait, want)
		}
		if b.wait(2, now) != 0 {
			t.Error("another version waits")
		}
		now = now.Add(want)
	}
	s, job := newSteers(), psg.JobID{Job: "a"}
	s.jobs[job] = &steerJob{blind: b}
	if s.arrived(job, b.last); s.blindness(job) == nil {
		t.Error("ended by what was there before")
	}
	if s.due(now); s.jobs[job] == nil {
		t.Error("forgotten while it counts")
	}
	if s.arrived(job, b.last.Add(time.Second)); s.blindness(job) != nil {
		t.Error("not ended by what came after")
	}
}
