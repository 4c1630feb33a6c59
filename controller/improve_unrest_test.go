package controller

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/placement"
)

// fickle likes every node better than those where a workload's instances run, as rules
// do that go by what is measured there.
type fickle struct{ Policy }

func (f fickle) Rule(ctx context.Context, w *psg.Workload, view *psg.Snapshot) (psg.Ruling, error) {
	ruling, err := f.Policy.Rule(ctx, w, view)
	for row := range view.Nodes {
		there := false
		for p := range view.Placements.All() {
			there = there || p.Ask.Workload == w.ID && p.Node == view.Nodes[row].ID
		}
		if !there {
			liked := psg.NewBitmap(len(view.Nodes))
			liked.Set(row)
			ruling.Scorings = append(ruling.Scorings, psg.Scoring{Points: 1000, Rows: liked})
		}
	}
	return ruling, err
}

func TestImprove_MovesNothingToAndFro(t *testing.T) {
	r := crossing(t, tempLog(t))
	a := drawn("a")
	a.Affinities = nil
	r.jobs = jobs{a.ID: a}
	policy := r.policy()
	r.policy = func() Policy { return fickle{policy} }
	r.report(psg.NodeChanged{Node: testNode("n1")}, psg.NodeChanged{Node: testNode("n2")}, psg.WorkloadChanged{Workload: a})
	r.place(0, gate(a, "a0", "n1"))
	r.report(psg.Moved{Ask: "a0", State: psg.Running, At: start})
	r.cycle()
	cycles := 0
	_ = r.improving("time passes", func() bool { cycles++; return cycles > 300 })
	r.wantMoved("a n1>n2")
}

func TestUnrest_WhoLeavesWhereItCameStaysEverLonger(t *testing.T) {
	u, id, now := newUnrest(), workload("a", "service", 1).ID, start
	stays := func(want ...psg.NodeID) {
		t.Helper()
		_, on := u.still(now)
		if got := on[id]; len(got) != len(want) || len(want) == 1 && got[0] != want[0] {
			t.Errorf("%v after the start instances stay on %v, want %v", now.Sub(start), got, want)
		}
	}
	u.moved(id, "n1", "n2", now)
	stays("n2")
	now = now.Add(stayMin)
	stays()
	u.moved(id, "n2", "n1", now)
	now = now.Add(stayMin)
	stays("n1")
	now = now.Add(stayMin)
	stays()
	for range 20 {
		u.moved(id, "n1", "n1", now)
		now = now.Add(time.Second)
	}
	now = now.Add(stayMax - 2*time.Second)
	stays("n1")
	now = now.Add(stayMax + 2*time.Second)
	stays()
	if len(u.groups) > 0 {
		t.Errorf("%+v is kept for good", u.groups[id])
	}
	u.moved(id, "n1", "n2", now)
	now = now.Add(stayMin)
	stays()
}

func TestUnrest_WhatCannotBeginIsTriedEverMoreRarely(t *testing.T) {
	u, id, now := newUnrest(), workload("a", "service", 1).ID, start
	waits := func(want time.Duration) {
		t.Helper()
		before, _ := u.still(now.Add(want - 1))
		after, _ := u.still(now.Add(want))
		if !before[id] || after[id] {
			t.Errorf("it rests: %v just before %v, %v then", before[id], want, after[id])
		}
		now = now.Add(want)
	}
	for _, want := range []time.Duration{vainMin, 2 * vainMin, 4 * vainMin} {
		u.inVain(id, now)
		waits(want)
	}
	for range 10 {
		u.inVain(id, now)
	}
	waits(vainMax)
	u.moved(id, "n1", "n2", now)
	u.inVain(id, now)
	waits(vainMin)
	u.still(now.Add(2 * vainMax))
	if len(u.groups) > 0 {
		t.Errorf("%+v is kept for good", u.groups[id])
	}
}

func TestUnrest_OneThatBeginsIsEnough(t *testing.T) {
	u, now := newUnrest(), start
	var moves []wantedMove
	for _, job := range []string{"a", "a", "b", "b"} {
		id := psg.RequestID(fmt.Sprint(job, len(moves)))
		moves = append(moves, wantedMove{source: psg.AskStatus{
			Ask: psg.Ask{ID: id, Workload: workload(job, "service", 1).ID}, Placement: &psg.Placement{Node: "n1"},
		}})
	}
	u.begun(moves, []psg.Order{{Ask: "a1", Node: "n2"}}, now)
	a, b := moves[0].source.Ask.Workload, moves[2].source.Ask.Workload
	all, on := u.still(now)
	if all[a] || !all[b] || !slices.Equal(on[a], []psg.NodeID{"n2"}) {
		t.Errorf("%v rest, and on %v; want b, whose moves did not begin, and what comes to n2", all, on)
	}
	if all, _ := u.still(now.Add(vainMin)); all[b] {
		t.Error("b rests longer for having two")
	}
}

// TestImprove_WhatCanSpareNoneIsInNobodysWay: of two groups that are better off
// elsewhere the first lacks an instance for good, and a look may begin one move.
func TestImprove_WhatCanSpareNoneIsInNobodysWay(t *testing.T) {
	r := crossed(t)
	a := drawn("a")
	a.Count, a.Version = 2, 2
	r.config.Improvement.Moves = 1
	r.report(psg.WorkloadChanged{Workload: a}, psg.Freed{Ask: "b0", State: psg.Released, At: start})
	c := drawn("a")
	c.ID.Job, c.Count, c.Affinities[0].Weight = "c", 1, 50
	c.Request[psg.Memory] = 64
	r.report(psg.WorkloadChanged{Workload: c})
	r.place(0, gate(c, "c0", "n3"))
	r.report(psg.Moved{Ask: "c0", State: psg.Running, At: start})
	r.cycle()
	moves, err := r.movesThatPay(t.Context(), r.now)
	if err != nil || len(moves) != 1 || moves[0].Placement.Ask.ID != "c0" {
		t.Errorf("%+v, %v; want c to n2", moves, err)
	}
}

func TestImprove_FindsNoMoveOfWhatDoesNotRun(t *testing.T) {
	r := crossing(t, tempLog(t))
	a := drawn("a")
	a.Count, a.Migrate = 2, &psg.Migrate{MaxParallel: 2}
	r.report(psg.NodeChanged{Node: testNode("n1")}, psg.NodeChanged{Node: testNode("n3")}, psg.WorkloadChanged{Workload: a})
	r.place(0, gate(a, "a0", "n1"))
	r.place(0, gate(a, "a1", "n3"))
	r.report(psg.Moved{Ask: "a1", State: psg.Running, At: start}, psg.NodeChanged{Node: testNode("n2")})
	r.cycle()
	if moves, err := r.movesThatPay(t.Context(), r.now); err != nil || len(moves) != 1 || moves[0].Placement.Ask.ID != "a1" {
		t.Errorf("%+v, %v; want a1 to n2: nobody has seen a0 run", moves, err)
	}
}

func TestImprove_LooksElsewhereEachTime(t *testing.T) {
	r := crossed(t)
	first, second := r.lookSeed(), r.lookSeed()
	if first == second {
		t.Error("while nothing happens, looks whose time is short begin with the same nodes for ever")
	}
}

func TestImprove_WaitsLongerForItsOwnDeployments(t *testing.T) {
	r := crossed(t)
	for _, job := range []string{"a", "b"} {
		w := drawn(job)
		w.Version, w.Update = 2, &psg.Update{MaxParallel: 1, HealthyDeadline: 5 * time.Minute}
		r.report(psg.WorkloadChanged{Workload: w})
	}
	r.cycle()
	moves, err := r.movesThatPay(t.Context(), r.now)
	if err != nil || len(moves) != 3 {
		t.Fatalf("%+v, %v", moves, err)
	}
	for at, want := range []time.Duration{0, othersWithin, 5*time.Minute + shiftWithin} {
		if got := r.patience(moves, at); got != want {
			t.Errorf("step %d waits %v for what is busy, want %v", at, got, want)
		}
	}
	moves[2].Placement.Ask.Workload = placement.Move{}.Placement.Ask.Workload
	if got := r.patience(moves, 2); got != 0 {
		t.Errorf("what is gone is waited for %v", got)
	}
}
