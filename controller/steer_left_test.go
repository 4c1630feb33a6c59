package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

// cutOff is an orchestrator that is told by somebody who does not wait for the
// answer: once a job is registered the time of the request is over, as it may be
// while Nomad evaluates.
type cutOff struct {
	director
	end  func()
	fail error // what comes of it, whether or not the time is over
}

func (d *cutOff) Steer(ctx context.Context, s psg.Steering, leads func() error) (bool, error) {
	changed, err := d.director.Steer(ctx, s, leads)
	d.end()
	if err == nil {
		err = errors.Join(d.fail, ctx.Err())
	}
	return changed, err
}

func (d *cutOff) Stop(ctx context.Context, alloc psg.AllocID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return d.director.Stop(ctx, alloc)
}

// cut asks for moves off n1, and has the request end when the orchestrator says so.
func (w *world) cut(to *cutOff) (psg.Rebalanced, error) {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	defer cancel()
	to.end = cancel
	w.steers.open(to)
	var done psg.Rebalanced
	var err error
	w.during(func() { done, err = w.Rebalance(ctx, psg.Rebalance{Node: "n1", Empty: true}) })
	return done, err
}

func TestRebalance_AShiftThatIsRegisteredIsUnderWay(t *testing.T) {
	for name, fail := range map[string]error{"the time is over": nil, "its evaluation cannot be read": psg.ErrUnavailable} {
		w, web := shiftable3(t, nil)
		nomad := &cutOff{director: director{shift: psg.ShiftRuns}, fail: fail}
		if done, _ := w.cut(nomad); len(done.Orders) != 3 {
			t.Errorf("%s: orders %+v, want three", name, done.Orders)
		}
		if w.steers.shiftOf(web.ID.JobID()) == nil || w.count(psg.Moving) != 3 || w.count(psg.Steered) != 3 {
			t.Fatalf("%s: %v; want the shift known, and its rooms kept", name, w.standing())
		}
		nomad.says(psg.ShiftGone) // it was not registered after all
		w.attended(web.ID.JobID(), nomad)
		if w.count(psg.Running) != 3 || w.reserved(movePrefix) != nil {
			t.Errorf("%s: %v; want three that run, and nothing reserved", name, w.standing())
		}
	}
}

func TestRebalance_AMoveThatIsHintedIsStopped(t *testing.T) {
	w, _ := spread3(t)
	nomad := &cutOff{}
	done, _ := w.cut(nomad)
	if _, stopped := nomad.told(); len(done.Orders) != 1 || len(stopped) != 1 {
		t.Errorf("orders %+v, stopped %v; want one", done.Orders, stopped)
	}
	if w.count(psg.Moving) != 1 || w.count(psg.Steered) != 1 {
		t.Errorf("%v; want one that moves, and its room", w.standing())
	}
}

func TestRebalance_AMoveThatFailsIsTakenBackWhoeverStillWaits(t *testing.T) {
	for name, first := range map[string]*psg.Disruption{"stop first": {Order: psg.StopFirst, MaxUnavailable: 1}, "start first": {Order: psg.StartFirst}} {
		w, _ := shiftable3(t, first)
		nomad := &cutOff{director: director{refuse: psg.ErrBusy}}
		done, _ := w.cut(nomad)
		if len(done.Orders) != 0 || w.count(psg.Running) != 3 || w.reserved(movePrefix) != nil {
			t.Errorf("%s: orders %+v, %v; want three that run, and nothing reserved", name, done.Orders, w.standing())
		}
	}
}

func TestSteer_EndsMovesThatALeaderLeftBehind(t *testing.T) {
	w, web := spread3(t)
	long := time.Now().Add(-leftWithin - time.Second)
	w.report(psg.Moved{Ask: "w1", State: psg.Moving, Reason: "moves", At: long}, psg.Moved{Ask: "w2", State: psg.Moving, Reason: "moves", At: time.Now()})
	w.report(psg.Asked{Ask: psg.Ask{ID: "move/w3/x/0", Workload: web.ID, Node: "nowhere", At: long.Add(-askedWithin), Hold: time.Minute}})
	w.cycle()
	look := func() {
		t.Helper()
		if err := w.leftBehind(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		w.cycle()
	}
	web.Shifting, web.Version = true, 2
	w.report(psg.WorkloadChanged{Workload: web})
	w.cycle()
	w.steers.open(&director{})
	look()
	if w.state("w1") != psg.Moving || w.steers.jobs[web.ID.JobID()] == nil {
		t.Errorf("%v; want its shift left alone, and attended to", w.standing())
	}
	web.Shifting, web.Version = false, 3
	w.report(psg.WorkloadChanged{Workload: web})
	w.cycle()
	look()
	if one, _ := w.Ask("w1"); one.State != psg.Running || !strings.Contains(one.Reason, "was not ended") {
		t.Errorf("%s: %q; want it run on, and why", one.State, one.Reason)
	}
	if w.state("w2") != psg.Moving {
		t.Errorf("w2 is %s, want it moving: it has only begun", w.state("w2"))
	}
	if w.state("move/w3/x/0") != psg.Released {
		t.Errorf("an ask that nobody waits for is %s", w.state("move/w3/x/0"))
	}
}

func TestSteer_ANewLeaderTakesBackHintsToALostNode(t *testing.T) {
	w, web := spread3(t)
	w.report(psg.Freed{Ask: "w1", State: psg.Lost, At: time.Now()}, psg.Freed{Ask: "w2", State: psg.Lost, At: time.Now().Add(-2 * lostLately)})
	w.cycle()
	w.steers.open(&director{})
	w.noteAll(time.Now())
	if gone, _ := w.steers.goneFrom(web.ID.JobID()); len(gone) != 1 || gone[0] != "n1" {
		t.Errorf("gone %v, want n1", gone)
	}
}

func TestFinish_ASuccessorIsOfOneMove(t *testing.T) {
	w, web := spread3(t)
	w.steers.open(&director{})
	for _, id := range []psg.RequestID{"w1", "w2"} {
		source, _ := w.Ask(id)
		r := w.newRecord([]psg.AskStatus{source}, false)
		r.settle()
		w.steers.record(r, []leg{{source: id, to: "n2"}})
		w.report(psg.Freed{Ask: id, State: psg.Released, At: start})
	}
	for _, successor := range []string{"x1", "x2"} {
		w.place(0, gate(web, successor, "n2"))
		w.report(psg.Moved{Ask: psg.RequestID(successor), State: psg.Running, At: start})
		w.cycle()
		if err := w.finish(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		w.cycle()
	}
	ended := w.steers.finishedFrom("n1")
	if len(ended) != 2 || ended[0].Successor != "x1" || ended[1].Successor != "x2" {
		t.Errorf("finished %+v, want one that x1 is the successor of, and one x2", ended)
	}
}

// What it knows of the moves it has from the ledger, whoever's room is used already.
func TestRebalance_TheNextLeaderTellsWhatAShiftCameTo(t *testing.T) {
	for name, used := range map[string]bool{"before its successors come": false, "when they run": true} {
		w, web, nomad := begunShift(t)
		come := func() {
			for _, alloc := range []string{"x1", "x2", "x3"} {
				w.place(0, gate(web, alloc, "n2"))
				w.report(psg.Moved{Ask: psg.RequestID(alloc), State: psg.Running, At: time.Now()})
			}
			w.cycle()
		}
		if used {
			come()
		}
		web.Shifting, web.Version = true, 9
		w.report(psg.WorkloadChanged{Workload: web})
		w.cycle()
		w.steers.open(nomad)
		w.steers.note(web.ID.JobID(), time.Now())
		w.attended(web.ID.JobID(), nomad)
		if !used {
			come()
		}
		for _, alloc := range []string{"w1", "w2", "w3"} {
			w.report(psg.Freed{Ask: psg.RequestID(alloc), State: psg.Released, At: time.Now()})
		}
		w.cycle()
		nomad.says(psg.ShiftDone)
		w.attended(web.ID.JobID(), nomad)
		if err := w.finish(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		ended := w.steers.finishedFrom("n1")
		if len(ended) != 3 {
			t.Errorf("%s: finished %+v, want three", name, ended)
		}
		for i, m := range ended {
			if m.GivenUp != "" || m.Successor != psg.AllocID(fmt.Sprint("x", i+1)) || m.To != "n2" || m.Versions != 2 || !m.Shift {
				t.Errorf("%s: %+v", name, m)
			}
		}
	}
}

func TestFinish_GivesUpAMoveWhoseStopNomadHasUndone(t *testing.T) {
	w, _ := spread3(t)
	nomad := &director{}
	w.steers.open(nomad)
	orders, err := w.rebalanced(nomad, "n1")
	if err != nil || len(orders) != 1 {
		t.Fatalf("%v, %v", orders, err)
	}
	source := psg.RequestID(orders[0].Alloc)
	w.report(psg.Moved{Ask: source, State: psg.Running, At: start})
	w.cycle()
	for _, after := range []time.Duration{stoppedFor - time.Second, stoppedFor + time.Second} {
		if err := w.finish(t.Context(), time.Now().Add(after)); err != nil {
			t.Fatal(err)
		}
		if err := w.leftBehind(t.Context(), time.Now().Add(after)); err != nil {
			t.Fatal(err)
		}
		w.cycle()
		want, given := psg.Moving, 0
		if after > stoppedFor {
			want, given = psg.Running, 1
		}
		if ended := w.steers.finishedFrom("n1"); w.state(source) != want || len(ended) != given {
			t.Errorf("after %v it is %s, finished %+v; want it %s", after, w.state(source), ended, want)
		}
	}
}
