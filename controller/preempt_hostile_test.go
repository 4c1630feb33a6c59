package controller

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

func TestPreempt_WhatIsGivenUpIsNotBegunAgainUnasked(t *testing.T) {
	w, _, _ := full(t)
	if got := w.preempts("u1", "", 0); len(got.orders) != 2 {
		t.Fatalf("%+v", got)
	}
	w.now = w.now.Add(preemptWithin)
	w.cycle()
	for range 5 { // each looks at what waits
		w.now = w.now.Add(resolveAfter)
		w.cycle()
		if w.state("u1") != psg.Queued || w.inWay("l1") {
			t.Fatalf("u1 is %s, l1 makes way: %v", w.state("u1"), w.inWay("l1"))
		}
	}
	w.checkLog()
}

func TestPreempt_DecidedAnewForgetsWhatItWasToldBefore(t *testing.T) {
	w, _, _ := full(t)
	want := &preempt{ask: "u1", most: 1}
	if deltas, err := w.decidePreempt(t.Context(), want, w.now); err != nil || want.refused == nil || len(deltas) > 0 {
		t.Fatalf("%+v, %v; want a refusal", want, err)
	}
	want.most = 2 // as the world may have changed when the first cycle was not committed
	if deltas, err := w.decidePreempt(t.Context(), want, w.now); err != nil || want.refused != nil || len(deltas) != 1 {
		t.Errorf("%+v, %v; want it granted", want, err)
	}
}

// stubborn does not stop one allocation.
type stubborn struct {
	*director
	alloc psg.AllocID
}

func (s stubborn) Stop(ctx context.Context, alloc psg.AllocID) error {
	if alloc == s.alloc {
		return errors.New("no such server")
	}
	return s.director.Stop(ctx, alloc)
}

func TestMakeWay_OneThatCannotBeStoppedDoesNotSpareOthers(t *testing.T) {
	w, _, _ := full(t)
	if got := w.preempts("u1", "", 0); len(got.orders) != 2 {
		t.Fatalf("%+v", got)
	}
	nomad, stopped := &director{}, map[psg.RequestID]time.Time{}
	err := w.stopVictims(t.Context(), stubborn{nomad, "l1"}, stopped)
	if _, done := nomad.told(); err == nil || !slices.Equal(done, []psg.AllocID{"l2"}) {
		t.Fatalf("stopped %v, %v; want l2 and why not l1", done, err)
	}
	if err := w.stopVictims(t.Context(), stubborn{nomad, "l1"}, stopped); err != nil {
		t.Errorf("tried again at once: %v", err)
	}
	stopped["l1"] = stopped["l1"].Add(-steerRetry)
	if err := w.stopVictims(t.Context(), nomad, stopped); err != nil {
		t.Fatal(err)
	}
	if _, done := nomad.told(); !slices.Equal(done, []psg.AllocID{"l2", "l1"}) {
		t.Errorf("stopped %v, want l1 tried again and l2 left to end", done)
	}
}

// afar is a world where u1 of an urgent workload waits on n1, which is full for
// good, and l of a low one fills n2.
func afar(t *testing.T) (*world, psg.Workload) {
	stays, low, high := workload("stays", "service", 4096), lowly("low", 4096), urgent("high", 4096)
	w := newWorld(t, tempLog(t), jobs{stays.ID: stays, low.ID: low, high.ID: high})
	w.report(psg.NodeChanged{Node: testNode("n1")}, psg.NodeChanged{Node: testNode("n2")})
	w.place(0, gate(stays, "s", "n1"), gate(low, "l", "n2"))
	w.report(psg.Moved{Ask: "l", State: psg.Running, At: start})
	w.place(0, gate(high, "u1", "n1"))
	return w, high
}

// shun has a node miss what was steered to it so often that nothing is planned
// there.
func (w *world) shun(node psg.NodeID) {
	job, now := psg.JobID{Job: "unlucky"}, time.Now()
	for range maxMisses {
		w.steers.sentTo(job, node, now)
		w.steers.missed(job, node, now)
	}
}

func TestPreempt_StopsNobodyWhereNothingStarts(t *testing.T) {
	w, _ := afar(t)
	w.shun("n2")
	if got := w.preempts("u1", "", 0); got.err != nil || got.refused == nil {
		t.Errorf("%+v, want nobody to end on a node that is shunned", got)
	}
}

func TestPreempt_RecordsWhatPoliciesInAuditModeWouldHaveDenied(t *testing.T) {
	w, _, _ := full(t)
	w.policy = always(auditing{})
	if got := w.preempts("u1", "", 0); len(got.orders) != 2 {
		t.Fatalf("%+v", got)
	}
	if status, _ := w.Ask("u1"); len(status.Placement.Audit) != 1 {
		t.Errorf("noted %+v", status.Placement.Audit)
	}
}

func TestPreempt_AnAskWhoseIDLooksLikeAClaimIsItsOwn(t *testing.T) {
	w, high := afar(t)
	w.place(0, gate(high, "u1/preempt-2", "n1"))
	if got := w.preempts("u1/preempt-2", "", 0); len(got.orders) != 1 {
		t.Fatalf("%+v", got)
	}
	if got := w.preempts("u1", "", 0); len(got.orders) != 0 || got.refused == nil {
		t.Errorf("u1 is answered with the room of another: %+v", got)
	}
}

func TestRebalance_LeavesWhatMakesWayAndCountsItAsDown(t *testing.T) {
	low, high := lowly("low", 2048), urgent("high", 2048)
	low.Count = 2
	w := newWorld(t, tempLog(t), jobs{low.ID: low, high.ID: high})
	w.report(psg.NodeChanged{Node: testNode("n1")})
	w.place(0, gate(low, "l1", "n1"), gate(low, "l2", "n1"))
	w.report(psg.Moved{Ask: "l1", State: psg.Running, At: start}, psg.Moved{Ask: "l2", State: psg.Running, At: start})
	w.place(0, gate(high, "u1", "n1"))
	if !w.spares(low.ID) {
		t.Fatal("one of two may be down")
	}
	if got := w.preempts("u1", "", 0); len(got.orders) != 1 || got.orders[0].Alloc != "l1" {
		t.Fatalf("%+v", got)
	}
	moves, err := w.movable(t.Context(), "n1")
	if err != nil || len(moves) != 1 || moves[0].Ask.ID != "l2" {
		t.Errorf("may move: %+v, %v; want l2 alone", moves, err)
	}
	if w.spares(low.ID) {
		t.Error("a second one may be down beside the one that makes way")
	}
}

// meddling does something just before a record reaches the log.
type meddling struct {
	Log
	before func()
}

func (m meddling) Append(ctx context.Context, r psg.Record) error {
	m.before()
	return m.Log.Append(ctx, r)
}

func TestPreempt_IsAnsweredWhereEngineAndLedgerDisagree(t *testing.T) {
	w, _, _ := full(t)
	w.Controller.log = meddling{w.Controller.log, func() {
		_ = w.Controller.state.Fold(psg.Freed{Ask: "u1", State: psg.Released, At: start}, w.Controller.state.Sequence())
	}}
	want := &preempt{ask: "u1", answer: make(chan error, 1)}
	if err := w.inbox.preempt(want); err != nil {
		t.Fatal(err)
	}
	if err := w.Cycle(t.Context(), w.now); err == nil {
		t.Fatal("the record breaks no invariant")
	}
	select {
	case err := <-want.answer:
		if err == nil {
			t.Error("told that all is well")
		}
	default:
		t.Error("whoever asked waits for ever")
	}
}
