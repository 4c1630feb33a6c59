package controller

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

func TestSteer_PlansNothingForAWhileWhereNomadStartsNothing(t *testing.T) {
	s, job, now := newSteers(), psg.JobID{Namespace: "default", Job: "web"}, start
	if s.missed(job, "n1", now) {
		t.Error("a first stray is no miss: nothing was sent")
	}
	shun := func() (missed int) {
		for range 10 {
			s.sentTo(job, "n1", now)
			missed++
			if s.missed(job, "n1", now.Add(time.Second)) {
				return missed
			}
		}
		t.Fatal("never shunned")
		return 0
	}
	for _, want := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 15 * time.Minute, 15 * time.Minute} {
		if missed := shun(); missed != maxMisses {
			t.Errorf("shunned after %d misses, want %d", missed, maxMisses)
		}
		if until := s.shunned(now)["n1"]; until.Sub(now.Add(time.Second)) != want {
			t.Errorf("shunned for %v, want %v", until.Sub(now.Add(time.Second)), want)
		}
		now = now.Add(want + 2*time.Second)
		if len(s.shunned(now)) > 0 {
			t.Error("still shunned when its time is over")
		}
	}
	s.sentTo(job, "n1", now)
	if s.missed(job, "n1", now.Add(missWithin+time.Second)) || s.landings["n1"].misses != 0 {
		t.Error("what comes long after counts as a miss")
	}
	s.sentTo(job, "n1", now)
	s.missed(job, "n1", now)
	s.landed("n1")
	if len(s.landings) != 0 {
		t.Error("a landing does not clear the misses")
	}
}

func TestSteer_AShunnedNodeIsDeniedWithItsReason(t *testing.T) {
	web := workload("web", "service", 512)
	w := newWorld(t, tempLog(t), jobs{web.ID: web})
	w.report(psg.NodeChanged{Node: testNode("n1")})
	w.cycle()
	job := psg.JobID{Namespace: "default", Job: "other"}
	for range maxMisses {
		w.steers.sentTo(job, "n1", time.Now())
		w.steers.missed(job, "n1", time.Now())
	}
	ask := psg.Ask{ID: "r1", Workload: web.ID, At: start, Hold: time.Minute}
	if order := w.place(0, ask)[0]; order.Kind != psg.Wait || order.Refusal == nil || order.Refusal.Excluded[0].Reason.Source != "nomad" {
		t.Fatalf("order %+v, want it to wait and say why", order)
	}
	if order := w.place(0, gate(web, "w1", "n1"))[0]; order.Kind != psg.Grant {
		t.Errorf("order %+v, want what Nomad did start there granted", order)
	}
	if len(w.Shunned(time.Now())) != 0 {
		t.Error("still shunned although Nomad started work there")
	}
}

func TestSteer_CountsWhatIsBlockedByReason(t *testing.T) {
	w := newWorld(t, tempLog(t), jobs{})
	nomad := &director{blocked: []psg.Blockage{{Reason: psg.BlockedByHold}, {Reason: psg.BlockedByQuota, Job: psg.JobID{Job: "a"}}, {Reason: psg.BlockedByHold}}}
	w.lookBlocked(t.Context(), nomad)
	nomad.refuse = errors.New("Nomad is away")
	w.lookBlocked(t.Context(), nomad)
	if got := w.Blocked(); got[psg.BlockedByHold] != 2 || got[psg.BlockedByQuota] != 1 {
		t.Errorf("blocked %v, want what was seen last", got)
	}
	if of, err := w.Blockages(psg.JobID{Job: "a"}); err != nil || len(of) != 1 || of[0].Reason != psg.BlockedByQuota {
		t.Errorf("of one job: %+v, %v", of, err)
	}
}

func TestBlockages_OnlyWhereTheyAreKnown(t *testing.T) {
	w := newWorld(t, tempLog(t), jobs{})
	job := psg.JobID{Job: "a"}
	if of, err := w.Blockages(job); err != nil || of == nil || len(of) > 0 {
		t.Errorf("where nothing steers: %+v, %v; want none", of, err)
	}
	nomad := &director{refuse: errors.New("Nomad is away")}
	w.steers.open(nomad)
	w.lookBlocked(t.Context(), nomad)
	if of, err := w.Blockages(job); !errors.Is(err, psg.ErrUnavailable) || w.Blocked() != nil {
		t.Errorf("before Nomad has answered: %+v, %v; metrics %v", of, err, w.Blocked())
	}
	nomad.refuse, nomad.blocked = nil, []psg.Blockage{{Job: job, Reason: psg.BlockedByQuota}}
	w.lookBlocked(t.Context(), nomad)
	if of, err := w.Blockages(job); err != nil || len(of) != 1 {
		t.Errorf("%+v, %v; want one", of, err)
	}
	w.steers.close()
	w.resign()
	if of, err := w.Blockages(job); !errors.Is(err, psg.ErrNotLeader) || w.Blocked() != nil {
		t.Errorf("without the lead: %+v, %v; metrics %v", of, err, w.Blocked())
	}
}

func TestSteer_ForgetsWhatWasSentLongAgoAndToNodesThatAreGone(t *testing.T) {
	w := newWorld(t, tempLog(t), nil)
	s := w.steers
	for i := range 100 {
		s.sentTo(psg.JobID{Job: fmt.Sprint("job-", i)}, "n1", start.Add(time.Duration(i)*missWithin))
	}
	if n := len(s.landings["n1"].sent); n > 2 {
		t.Errorf("%d are remembered that were sent to a node", n)
	}
	w.report(psg.NodeChanged{Node: testNode("n1")})
	w.cycle()
	w.report(psg.NodeGone{Node: "n1"})
	w.cycle()
	if len(s.landings) > 0 {
		t.Error("a node that is gone is remembered")
	}
}

// TestSteer_SendsToWhereRoomIsHeld, which may be another node than the last cycle has
// planned the stray on: that one has missed nothing then.
func TestSteer_SendsToWhereRoomIsHeld(t *testing.T) {
	w := strayOn(t)
	nomad := &director{}
	w.steers.open(nomad)
	stray, _ := w.Ask("w")
	at := func(node psg.NodeID) []psg.AskStatus {
		refusal := *stray.Refusal
		refusal.Node = node
		one := stray
		one.Refusal = &refusal
		return []psg.AskStatus{one}
	}
	w.steers.note(stray.Ask.Workload.JobID(), time.Now())
	w.during(func() {
		if _, held, err := w.reserveFor(t.Context(), &at("n3")[0]); !held || err != nil {
			t.Errorf("held: %t, %v", held, err)
		}
		if err := w.guide(t.Context(), stray.Ask.Workload.JobID(), at("n2"), nomad); err != nil {
			t.Error(err)
		}
	})
	if w.steers.landings["n3"] == nil || w.steers.landings["n2"] != nil {
		t.Errorf("sent to %v, want n3", w.steers.landings)
	}
}
