package controller

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/placement"
)

func TestImprove_TwoChangePlacesByWayOfAThird(t *testing.T) {
	r := crossed(t)
	err := r.improving("both are where they are drawn to", func() bool { return r.runs("n2", "n1") && r.idle() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the duty ended with %v", err)
	}
	r.wantMoved("a n1>n3", "b n2>n1", "a n3>n2")
	if !strings.Contains(r.said.String(), "exchanged") {
		t.Errorf("nobody says so:\n%s", r.said)
	}
}

func TestImprove_AnExchangeStartsOthersFirstWhereItsGroupsAllowIt(t *testing.T) {
	r := crossed(t)
	for _, job := range []string{"a", "b"} {
		w := drawn(job)
		w.Version, w.Disruption = 2, &psg.Disruption{Order: psg.StartFirst}
		w.Update = &psg.Update{MaxParallel: 1, HealthCheck: "checks", HealthyDeadline: time.Minute}
		r.report(psg.WorkloadChanged{Workload: w})
	}
	_ = r.improving("both are where they are drawn to", func() bool { return r.runs("n2", "n1") && r.idle() })
	r.wantMoved("a n1>n3", "b n2>n1", "a n3>n2")
	if steered, stopped := r.told(); len(stopped) > 0 || len(steered) != 6 {
		t.Errorf("stopped %v, steered %+v; want nothing stopped, and two versions for each step", stopped, steered)
	}
}

func TestImprove_StopsAnExchangeHalfWay(t *testing.T) {
	other := workload("other", "service", 3000)
	for name, one := range map[string]struct {
		spoil func(*replacer)
		why   string
	}{
		"another took the room": {func(r *replacer) { r.place(0, gate(other, "other", "n1")) }, "default/b/main cannot go from n2 to n1 any more"},
		"the node is lost":      {func(r *replacer) { r.report(psg.NodeGone{Node: "n1"}) }, "default/b/main cannot go from n2 to n1 any more"},
		"it pays no more": {func(r *replacer) {
			for _, job := range []string{"a", "b"} {
				w := drawn(job)
				w.Affinities, w.Version = nil, 2
				r.report(psg.WorkloadChanged{Workload: w})
			}
		}, "it no longer pays"},
		"the job cannot be changed": {func(r *replacer) {
			r.failing = func(s psg.Steering) error {
				if s.Job.Job == "b" {
					return psg.ErrInvalid
				}
				return nil
			}
		}, "invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			r := crossed(t)
			r.report(psg.WorkloadChanged{Workload: other})
			spoil := sync.OnceFunc(func() { one.spoil(r) })
			err := r.improving("it stops", func() bool {
				if r.state("a1") == psg.Granted { // and nobody has heard that it runs
					spoil()
				}
				return r.runs("n3", "n2") && r.idle()
			})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("the duty ended with %v", err)
			}
			r.wantMoved("a n1>n3")
			r.cycle()
			if room := r.reserved(movePrefix); room != nil {
				t.Errorf("%+v is still reserved", room)
			}
			if said := r.said.String(); !strings.Contains(said, "exchange stopped half-way") || !strings.Contains(said, one.why) {
				t.Errorf("it is not said that %q:\n%s", one.why, said)
			}
		})
	}
}

func TestImprove_BeginsNoExchangeThatItCannotFinish(t *testing.T) {
	for name, one := range map[string]struct {
		hinder func(*replacer)
		said   string
	}{
		"two steps are more than one look may begin": {func(r *replacer) { r.config.Improvement.Moves = 1 }, ""},
		"the second can spare none": {func(r *replacer) {
			b := drawn("b")
			b.Count, b.Version = 2, 2 // of which one runs
			r.report(psg.WorkloadChanged{Workload: b})
		}, ""},
		"the second rests": {func(r *replacer) {
			b := drawn("b").ID.JobID()
			r.steers.note(b, time.Now())
			r.steers.rest(b, time.Now())
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := crossed(t)
			one.hinder(r)
			cycles := 0
			err := r.improving("cycles", func() bool { cycles++; return cycles > 100 })
			if !errors.Is(err, context.Canceled) {
				t.Errorf("the duty ended with %v", err)
			}
			r.wantMoved()
			if said := r.said.String(); !strings.Contains(said, one.said) || one.said == "" && strings.Contains(said, "exchange") {
				t.Errorf("it is not said that %q:\n%s", one.said, said)
			}
		})
	}
}

func TestImprove_BeginsNoExchangeOfAGroupThatCanSpareNoneAnyMore(t *testing.T) {
	r := crossed(t)
	moves, err := r.movesThatPay(t.Context(), r.now)
	if err != nil || len(moves) != 3 {
		t.Fatalf("%+v, %v", moves, err)
	}
	b := drawn("b")
	b.Count, b.Version = 2, 2 // of which one runs
	r.report(psg.WorkloadChanged{Workload: b})
	r.cycle()
	if err := r.carry(t.Context(), moves, r); err != nil || !strings.Contains(r.said.String(), "move default/b/main: its group can spare none") {
		t.Errorf("%v:\n%s", err, r.said)
	}
	r.wantMoved()
	if left, err := r.movesThatPay(t.Context(), r.now); err != nil || len(left) > 0 {
		t.Errorf("it is found again at once: %+v, %v", left, err)
	}
}

// TestImprove_TheNextLeaderGoesOnFromWhereAnExchangeWasLeft ends the lead when the
// second step is about to be written, and after it was.
func TestImprove_TheNextLeaderGoesOnFromWhereAnExchangeWasLeft(t *testing.T) {
	for name, written := range map[string]bool{"before it is written": false, "after it is": true} {
		t.Run(name, func(t *testing.T) {
			r := crossed(t)
			r.failing = func(s psg.Steering) error {
				if s.Job.Job == "b" && !written {
					r.resign()
				}
				return nil
			}
			err := r.improving("its lead ends", func() bool {
				if written && len(r.moved()) == 2 {
					r.resign()
				}
				return false
			})
			if !errors.Is(err, psg.ErrNotLeader) {
				t.Fatalf("the duty ended with %v", err)
			}
			next := crossing(t, r.log.Log)
			next.order = r.moved()
			if written { // Nomad has started it meanwhile
				next.report(psg.Freed{Ask: "b0", State: psg.Released, At: next.now})
				next.report(psg.Asked{Ask: gate(drawn("b"), "b2", "n1")})
			} else { // as leftBehind says, later
				next.report(psg.Moved{Ask: "b0", State: psg.Running, Reason: "it runs on", At: next.now})
			}
			next.started = 2
			err = next.improving("both are where they are drawn to", func() bool { return next.runs("n2", "n1") && next.idle() })
			if !errors.Is(err, context.Canceled) {
				t.Errorf("the duty ended with %v", err)
			}
			next.wantMoved("a n1>n3", "b n2>n1", "a n3>n2")
		})
	}
}

func TestImprove_WaitsWithTheNextStepForADeploymentToEnd(t *testing.T) {
	r := crossed(t)
	tries := 0
	r.failing = func(s psg.Steering) error {
		if s.Job.Job == "b" {
			if tries++; tries < 2 {
				return psg.ErrBusy
			}
		}
		return nil
	}
	_ = r.improving("both are where they are drawn to", func() bool { return r.runs("n2", "n1") && r.idle() })
	r.wantMoved("a n1>n3", "b n2>n1", "a n3>n2")
	if tries != 2 || strings.Count(r.said.String(), "exchanged") != 1 {
		t.Errorf("%d tries:\n%s", tries, r.said)
	}
}

func TestImprove_StopsAnExchangeWhoseSuccessorComesElsewhere(t *testing.T) {
	r := crossed(t)
	r.done["a0"] = true // nothing starts in its place
	err := r.improving("it stops", func() bool {
		if room := r.reserved(movePrefix); len(r.moved()) > 0 && room != nil {
			r.report(psg.Freed{Ask: "a0", State: psg.Released, At: r.now}, psg.Freed{Ask: room.Ask.ID, State: psg.Released, At: r.now})
		}
		return r.state("a0") == psg.Released && r.idle()
	})
	if !errors.Is(err, context.Canceled) || !strings.Contains(r.said.String(), `msg="exchange stopped half-way"`) ||
		!strings.Contains(r.said.String(), "its successor did not come to n3") {
		t.Errorf("the duty ended with %v:\n%s", err, r.said)
	}
	r.wantMoved("a n1>n3")
}

func TestImprove_LooksForNothingWhileItCarriesOut(t *testing.T) {
	r := crossed(t)
	r.carrying <- struct{}{}
	if err := r.lookForMoves(t.Context(), r.now.Add(time.Hour)); err != nil || len(r.wishes) != 0 {
		t.Errorf("%d lists are wished for, %v; want none beside the one", len(r.wishes), err)
	}
	<-r.carrying
	if err := r.lookForMoves(t.Context(), r.now.Add(time.Hour)); err != nil || len(r.wishes) != 1 || r.idle() {
		t.Errorf("%d lists are wished for, %v; want one", len(r.wishes), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Improve(ctx); !errors.Is(err, context.Canceled) || !r.idle() || len(r.wishes) > 0 {
		t.Errorf("the next lead's duty goes on with what was found in the last: %v", err)
	}
}

func TestImprove_OneThatWasThereBeforeIsNoSuccessor(t *testing.T) {
	w, web := uneven(t)
	w.place(0, gate(web, "w4", "n2"))
	w.report(psg.Moved{Ask: "w4", State: psg.Running, At: start})
	w.cycle()
	moved, _ := w.Ask("w1")
	to := *moved.Placement
	to.Node = "n2"
	wanted, err := w.wantedOf(&placement.Move{From: "n1", Placement: to})
	if err != nil || w.astray(&wanted) {
		t.Fatalf("%v; w1 runs, and is not astray", err)
	}
	w.report(psg.Freed{Ask: "w1", State: psg.Released, At: start})
	w.cycle()
	if !w.astray(&wanted) {
		t.Error("w4, which ran on n2 before, is taken for the successor")
	}
	w.place(0, gate(web, "w5", "n2"))
	if w.astray(&wanted) {
		t.Error("w5 has come to n2, and is not seen")
	}
}
