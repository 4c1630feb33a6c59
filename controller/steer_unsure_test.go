package controller

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/psgrid/psg"
)

// unsure is an orchestrator whose answers to stops are lost, or say no.
type unsure struct {
	director
	fail error
}

func (u *unsure) Stop(ctx context.Context, alloc psg.AllocID) error {
	return errors.Join(u.director.Stop(ctx, alloc), u.fail)
}

// TestRebalance_CountsWhatMayHaveBeenStoppedAsDown: another would be stopped beside it.
func TestRebalance_CountsWhatMayHaveBeenStoppedAsDown(t *testing.T) {
	w, _ := spread3(t)
	nomad := &unsure{fail: psg.ErrUnavailable}
	for i := range 3 {
		orders, err := w.rebalanced(nomad, "n1")
		if _, stopped := nomad.told(); err != nil || len(stopped) != 1 || (len(orders) == 1) != (i == 0) {
			t.Fatalf("request %d: orders %+v, stopped %v, %v; want one instance stopped in all", i, orders, stopped, err)
		}
	}
	if w.count(psg.Moving) != 1 || w.reserved(movePrefix) == nil {
		t.Errorf("%v; want one that moves, and its room", w.standing())
	}
}

// TestRebalance_TakesBackTheHintOfAMoveThatCouldNotBeMade, and does not give it again
// at once.
func TestRebalance_TakesBackTheHintOfAMoveThatCouldNotBeMade(t *testing.T) {
	w, web := spread3(t)
	job, nomad := web.ID.JobID(), &unsure{fail: errors.New("forbidden")}
	w.steers.open(nomad)
	for range 3 {
		w.during(func() {
			if done, err := w.Rebalance(t.Context(), psg.Rebalance{Node: "n1", Empty: true}); err != nil || len(done.Orders) > 0 {
				t.Errorf("%+v, %v; want nothing moved", done, err)
			}
		})
	}
	if steered, _ := nomad.told(); len(steered) != 1 {
		t.Errorf("the job was changed %d times for a move that fails, want once", len(steered))
	}
	if w.count(psg.Running) != 3 || w.reserved(movePrefix) != nil {
		t.Errorf("%v; want three that run, and nothing reserved", w.standing())
	}
	w.attended(job, nomad)
	if s := nomad.last(); len(s.Gone) != 1 || s.Gone[0] != "n2" || s.Hints["main"]["n1"] != 3 || len(s.Hints["main"]) != 1 {
		t.Errorf("steered %+v, want the hint to n2 taken back", s)
	}
}

// TestRebalance_StopsNothingThatStartsHereAgain: without a hint Nomad may like the same
// node best.
func TestRebalance_StopsNothingThatStartsHereAgain(t *testing.T) {
	w, _ := spread3(t)
	nomad := &director{refuse: fmt.Errorf("it is a child: %w", psg.ErrUnknown)}
	rebalance := func() psg.Rebalanced {
		t.Helper()
		done, err := w.asksFor(t.Context(), nomad, psg.Rebalance{Node: "n1", Empty: true})
		if err != nil {
			t.Fatal(err)
		}
		return done
	}
	if done := rebalance(); len(done.Orders) > 0 || len(done.Stays) != 3 ||
		done.Stays[0].Reason != "no hint leads Nomad elsewhere, which may start it on n1 again: it is a child" {
		t.Errorf("%+v; want nothing moved, and why", done)
	}
	closed := testNode("n1")
	closed.Ready, closed.Version = false, 2
	w.report(psg.NodeChanged{Node: closed})
	w.cycle()
	if done := rebalance(); len(done.Orders) != 1 {
		t.Errorf("where Nomad starts nothing: %+v; want one moved", done)
	}
}

// TestRebalance_OneJobThatFailsKeepsNoOther: the same is asked for again in the same
// order.
func TestRebalance_OneJobThatFailsKeepsNoOther(t *testing.T) {
	w, _ := spread3(t)
	other := workload("zoo", "service", 64)
	w.report(psg.WorkloadChanged{Workload: other})
	w.cycle()
	w.place(0, gate(other, "z", "n1"))
	w.report(psg.Moved{Ask: "z", State: psg.Running, At: start})
	w.cycle()
	nomad := &picky{job: "web"}
	orders, err := w.rebalanced(nomad, "n1")
	if err != nil || len(orders) != 1 || orders[0].Alloc != "z" {
		t.Errorf("orders %+v, %v; want the other job's instance moved", orders, err)
	}
}

// picky refuses to change one job.
type picky struct {
	director
	job string
}

func (p *picky) Steer(ctx context.Context, s psg.Steering, leads func() error) (bool, error) {
	if s.Job.Job == p.job {
		return false, errors.New("the job is not valid")
	}
	return p.director.Steer(ctx, s, leads)
}
