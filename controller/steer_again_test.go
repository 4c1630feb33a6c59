package controller

import (
	"testing"
	"time"

	"github.com/psgrid/psg"
)

// full is a world of two nodes with three instances of web on the first, and on
// the second as much as leaves room for so many.
func (w *world) full(room int) {
	filler := workload("filler", "service", 4096-512*int64(room))
	w.report(psg.WorkloadChanged{Workload: filler})
	w.cycle()
	if order := w.place(0, gate(filler, "f", "n2"))[0]; order.Kind != psg.Grant {
		w.Fatalf("the filler: %+v", order)
	}
	w.report(psg.Moved{Ask: "f", State: psg.Running, At: start})
	w.cycle()
}

func TestRebalance_TriesADestinationAgainThatHadNoRoom(t *testing.T) {
	w, _ := spread3(t)
	w.full(0)
	for range 2 {
		if orders, err := w.rebalanced(&director{}, "n1"); err != nil || len(orders) > 0 {
			t.Fatalf("orders %+v, %v; want none, there is no room", orders, err)
		}
	}
	w.report(psg.Freed{Ask: "f", State: psg.Released, At: start})
	w.cycle()
	if orders, err := w.rebalanced(&director{}, "n1"); err != nil || len(orders) != 1 {
		t.Errorf("once there is room: orders %+v, %v; want one move", orders, err)
	}
}

func TestRebalance_StopsFirstWhereThereIsNoRoomForAll(t *testing.T) {
	w, _ := shiftable3(t, nil)
	w.full(2)
	nomad := &director{shift: psg.ShiftRuns}
	if orders, err := w.rebalanced(nomad, "n1"); err != nil || len(orders) != 1 || orders[0].Kind != psg.Stop {
		t.Errorf("orders %+v, %v; want one that is stopped first", orders, err)
	}
}

func TestSteer_ReservesAnewWhatHasExpired(t *testing.T) {
	w := strayOn(t)
	stray, _ := w.Ask("w")
	for range 3 {
		w.during(func() {
			if _, held, err := w.reserveFor(t.Context(), &stray); err != nil || !held {
				t.Errorf("reserved: %t, %v", held, err)
			}
		})
		if w.reserved("steer/w/") == nil {
			t.Fatalf("nothing is reserved: %v", w.standing())
		}
		w.now = w.now.Add(steerHold + time.Second) // Steer was busy for as long
		w.cycle()
		if room := w.reserved("steer/w/"); room != nil {
			t.Fatalf("%+v has not expired", room)
		}
	}
}

// The IDs are those of a controller of before, and of now.
func TestSteer_TheNextLeaderKnowsWhatAnotherReserved(t *testing.T) {
	for _, id := range []psg.RequestID{"steer/w/4", reservationID(steerPrefix, "w")} {
		w := strayOn(t)
		web := workload("web", "service", 1024)
		w.during(func() {
			held, _, err := w.Controller.reserve(t.Context(), psg.Reservation{ID: id, Workload: web.ID, Count: 1, Node: "n2", Hold: steerHold})
			if err != nil || len(held) != 1 {
				t.Errorf("%v, %v", held, err)
			}
		})
		if err := w.Lead(t.Context(), w.now); err != nil {
			t.Fatal(err)
		}
		nomad := &director{}
		w.steers.open(nomad)
		w.steers.note(web.ID.JobID(), time.Now())
		w.attended(web.ID.JobID(), nomad)
		rooms := 0
		for _, status := range w.Asks() {
			if status.Placement != nil && hasPrefix(status.Ask.ID, steerPrefix) {
				rooms++
			}
		}
		if _, stopped := nomad.told(); rooms != 1 || len(stopped) != 1 || nomad.last().Hints["main"]["n2"] != 1 {
			t.Errorf("%s: %d rooms, stopped %v, steered %+v; want the room that there was used", id, rooms, stopped, nomad.last())
		}
	}
}

func TestSpares_CountsWhatMovesByTheRoomThatAnyLeaderReserved(t *testing.T) {
	for _, id := range []psg.RequestID{"move/w1/4/n2", reservationID(movePrefix, "w1")} {
		w, web := spread3(t)
		if !w.spares(web.ID) {
			t.Fatal("none may be down")
		}
		w.during(func() {
			held, _, err := w.Controller.reserve(t.Context(), psg.Reservation{ID: id, Workload: web.ID, Count: 1, Node: "n2", Hold: steerHold})
			if err != nil || len(held) != 1 {
				t.Errorf("%v, %v", held, err)
			}
		})
		if w.spares(web.ID) {
			t.Errorf("%s: another may be down while w1 moves", id)
		}
		_, asks := w.job(web.ID.JobID())
		if l := resumedLeg("w1", asks); l.to != "n2" || l.room == "" {
			t.Errorf("%s: resumed as %+v", id, l)
		}
		if l := resumedLeg("w", asks); l.room != "" {
			t.Errorf("%s: taken for another's: %+v", id, l)
		}
	}
}

// Nomad starts the successor while the source still ends: it has used the room that
// says so.
func TestSpares_CountsASourceThatEndsWhileItsSuccessorStarts(t *testing.T) {
	w, web := spread3(t)
	nomad := &director{}
	w.steers.open(nomad)
	orders, err := w.rebalanced(nomad, "n1")
	if err != nil || len(orders) != 1 {
		t.Fatalf("%v, %v", orders, err)
	}
	w.report(psg.Moved{Ask: psg.RequestID(orders[0].Alloc), State: psg.Running, At: start})
	if order := w.place(0, gate(web, "w4", "n2"))[0]; order.Kind != psg.Grant || w.reserved(movePrefix) != nil {
		t.Fatalf("%+v, %v; want it granted out of the room", order, w.standing())
	}
	if w.spares(web.ID) {
		t.Error("two instances may be down at once")
	}
	w.report(psg.Freed{Ask: psg.RequestID(orders[0].Alloc), State: psg.Released, At: start}, psg.Moved{Ask: "w4", State: psg.Running, At: start})
	w.cycle()
	if !w.spares(web.ID) {
		t.Error("none may be down although all three run")
	}
}

// A drain, or whoever stops an allocation, takes what may be down as a move does, and
// its successor need not come where it was.
func TestSpares_CountsWhatNomadStops(t *testing.T) {
	w, web := spread3(t)
	w.report(psg.Moved{Ask: "w1", State: psg.Ending, Reason: "Nomad stops it", At: start})
	w.cycle()
	if w.spares(web.ID) {
		t.Error("another may be down while w1 ends")
	}
	workloads, asks := w.job(web.ID.JobID())
	if hint := hints(workloads, asks)["main"]; hint["n1"] != 2 {
		t.Errorf("hinted %v, want the two that stay", hint)
	}
	if orders, err := w.rebalanced(&director{}, "n1"); err != nil || len(orders) > 0 {
		t.Errorf("%+v, %v; want none moved meanwhile", orders, err)
	}
	w.report(psg.Freed{Ask: "w1", State: psg.Released, At: start})
	if order := w.place(0, gate(web, "w4", "n2"))[0]; order.Kind != psg.Grant {
		t.Fatalf("%+v", order)
	}
	w.report(psg.Moved{Ask: "w4", State: psg.Running, At: start})
	w.cycle()
	if !w.spares(web.ID) {
		t.Error("none may be down although all three run")
	}
}

// So it is for the hint of the next: it would draw the successor back.
func TestRebalance_HintsNothingToWhereASourceEnds(t *testing.T) {
	w, web := spread3(t)
	web.Migrate, web.Version = &psg.Migrate{MaxParallel: 2}, 2
	w.report(psg.WorkloadChanged{Workload: web})
	w.cycle()
	nomad := &director{}
	orders, err := w.rebalanced(nomad, "n1")
	if err != nil || len(orders) != 2 {
		t.Fatalf("%v, %v; want two moves", orders, err)
	}
	if s := nomad.last(); s.Hints["main"]["n1"] != 1 || s.Hints["main"]["n2"] != 2 {
		t.Errorf("hinted %+v, want one left on n1 and two on n2", s.Hints)
	}
	first := psg.RequestID(orders[0].Alloc)
	w.report(psg.Moved{Ask: first, State: psg.Running, At: start})
	w.cycle()
	changed, _, err := w.hint(t.Context(), web.ID.JobID(), nomad)
	if s := nomad.last(); !changed || err != nil || s.Hints["main"]["n1"] != 1 || s.Hints["main"]["n2"] != 2 {
		t.Errorf("hinted %+v, %v; want one left on n1 and two on n2", s.Hints, err)
	}
}
