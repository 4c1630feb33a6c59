package controller

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/placement"
)

// uneven is a world in which all three instances of web, which wants to be spread
// over the nodes, run on the first, and idle cycles look for moves.
func uneven(t *testing.T) (*world, psg.Workload) {
	web := workload("web", "service", 512)
	web.Count = 3
	web.Spreads = []psg.Spread{{Attribute: "${node.unique.id}", Weight: 100, Scope: psg.GroupScope}}
	w := newWorld(t, tempLog(t), jobs{web.ID: web})
	w.config.Improvement = Improvement{Every: time.Second, Moves: 8}
	w.report(psg.NodeChanged{Node: testNode("n1")}, psg.NodeChanged{Node: testNode("n2")})
	for _, alloc := range []string{"w1", "w2", "w3"} {
		w.place(0, gate(web, alloc, "n1"))
		w.report(psg.Moved{Ask: psg.RequestID(alloc), State: psg.Running, At: start})
	}
	w.cycle()
	return w, web
}

// improving runs idle cycles and the duty until done holds, or so many cycles.
func (w *world) improving(to Orchestrator, cycles int, done func() bool) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 20*time.Second)
	defer cancel()
	w.steers.open(to)
	defer w.steers.close()
	duty := make(chan error, 1)
	go func() { duty <- w.Improve(ctx) }()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for i := 0; i < cycles && !done(); i++ {
		<-poll.C
		w.now = w.now.Add(100 * time.Millisecond)
		w.cycle()
	}
	cancel()
	if err := <-duty; !errors.Is(err, context.Canceled) {
		w.Errorf("the duty ended with %v", err)
	}
}

func TestImprove_MovesWhatPaysWhenNobodyWaits(t *testing.T) {
	w, _ := uneven(t)
	nomad := &director{}
	nomad.onSteer = func(psg.Steering) {
		if room := w.reserved(movePrefix); room == nil || room.Node != "n2" {
			t.Errorf("hinted before the destination was reserved: %+v", room)
		}
	}
	stopped := func() bool { _, stopped := nomad.told(); return len(stopped) > 0 }
	w.improving(nomad, 2000, stopped)
	if _, stopped := nomad.told(); len(stopped) != 1 {
		t.Errorf("stopped %v, want one: the group can spare no more", stopped)
	}
}

func TestImprove_RestsWhereNothingPays(t *testing.T) {
	for name, calm := range map[string]func(*world, psg.Workload){
		"it is off": func(w *world, _ psg.Workload) { w.config.Improvement = Improvement{} },
		"it is even": func(w *world, web psg.Workload) {
			w.report(psg.Freed{Ask: "w1", State: psg.Released, At: start})
			w.place(0, gate(web, "w4", "n2"))
			w.report(psg.Moved{Ask: "w4", State: psg.Running, At: start})
		},
		"policy protects it": func(w *world, web psg.Workload) {
			policy := w.policy()
			w.policy = func() Policy { return guarded{policy, web.ID} }
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, web := uneven(t)
			calm(w, web)
			nomad := &director{}
			w.improving(nomad, 100, func() bool { return false })
			if steered, stopped := nomad.told(); len(steered)+len(stopped) > 0 {
				t.Errorf("steered %+v, stopped %v; want nothing in 10 s", steered, stopped)
			}
		})
	}
}

// TestCycle_LeavesWhatItDoesNotReachToTheNext gives the choice of nodes no time at
// all, and then enough.
func TestCycle_LeavesWhatItDoesNotReachToTheNext(t *testing.T) {
	web := workload("web", "service", 64)
	w := newWorld(t, tempLog(t), jobs{web.ID: web})
	w.report(psg.NodeChanged{Node: testNode("n1")})
	w.config.SolveFor = time.Nanosecond
	if err := w.submit(t.Context(), []psg.Ask{gate(web, "a1", "n1")}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		w.cycle()
	}
	if state := w.Controller.state.Ask("a1").State; state != psg.Gated {
		t.Fatalf("with no time a1 is %s", state)
	}
	w.config.SolveFor = time.Minute
	w.cycle()
	if state := w.Controller.state.Ask("a1").State; state != psg.Granted {
		t.Errorf("in the next cycle a1 is %s", state)
	}
}

func TestImprove_MovesNothingToWhereNothingStarts(t *testing.T) {
	w, _ := uneven(t)
	w.steers.open(&director{})
	w.shun("n2")
	if err := w.lookForMoves(t.Context(), w.now); err != nil || len(w.wishes) > 0 {
		t.Errorf("wants to move: %v", err)
	}
	if moves, err := w.improvements(t.Context(), psg.Rebalance{Node: "n1"}); err != nil || len(moves) > 0 {
		t.Errorf("would move %+v, %v", moves, err)
	}
	w.Controller.improved = time.Time{}
	w.steers.landed("n2")
	if err := w.lookForMoves(t.Context(), w.now); err != nil || len(w.wishes) != 1 {
		t.Errorf("once it takes work again: %d wishes, %v", len(w.wishes), err)
	}
}

// TestImprove_MovesTogetherWhatStartsOthersFirst has both instances of a group that
// are better off elsewhere leave their node in one change.
func TestImprove_MovesTogetherWhatStartsOthersFirst(t *testing.T) {
	web := workload("web", "service", 512)
	web.Count, web.Migrate, web.Disruption = 2, &psg.Migrate{MaxParallel: 2}, &psg.Disruption{Order: psg.StartFirst, MaxUnavailable: 2}
	web.Update = &psg.Update{MaxParallel: 1, HealthCheck: "checks", HealthyDeadline: time.Minute}
	web.Affinities = []psg.Affinity{{
		Constraint: psg.Constraint{Left: "${node.unique.id}", Operator: psg.Equal, Right: "n2", Scope: psg.GroupScope}, Weight: 100,
	}}
	w := newWorld(t, tempLog(t), jobs{web.ID: web})
	w.config.Improvement = Improvement{Every: time.Second, Moves: 8}
	w.report(psg.NodeChanged{Node: testNode("n1")})
	for _, alloc := range []string{"w1", "w2"} {
		w.place(0, gate(web, alloc, "n1"))
		w.report(psg.Moved{Ask: psg.RequestID(alloc), State: psg.Running, At: start})
	}
	w.report(psg.NodeChanged{Node: testNode("n2")})
	nomad := &director{shift: psg.ShiftRuns}
	w.improving(nomad, 2000, func() bool { steered, _ := nomad.told(); return len(steered) > 0 })
	if s := nomad.last(); s.Shifts["main"] != (psg.Shift{From: "n1", Moves: 2}) || s.Hints["main"]["n2"] != 2 {
		t.Errorf("steered %+v, want both to n2", s)
	}
}

func TestImprove_TellsMovesThatPayOnlyTogetherApart(t *testing.T) {
	for name, one := range map[string]struct{ chains, alone, chain []int }{
		"each by itself":            {[]int{1, 2, 3}, []int{1, 2, 3}, []int{1}},
		"some, and then three":      {[]int{1, 2, 3, 3, 3, 4}, []int{1, 2}, []int{1}},
		"two, and then one":         {[]int{1, 1, 2}, nil, []int{1, 1}},
		"two times two":             {[]int{1, 1, 2, 2}, nil, []int{1, 1}},
		"the last of a list's rest": {[]int{7}, []int{7}, []int{7}},
	} {
		var moves []placement.Move
		for _, n := range one.chains {
			moves = append(moves, placement.Move{Chain: n})
		}
		if got := alone(moves); !slices.EqualFunc(got, one.alone, func(m placement.Move, n int) bool { return m.Chain == n }) {
			t.Errorf("%s: %+v are begun alone", name, got)
		}
		if got := chain(moves); len(got) != len(one.chain) {
			t.Errorf("%s: %+v are one chain", name, got)
		}
	}
}

// TestImprove_GoesOnWithWhatFollowsAnExchange has a third instance move once two have
// changed places.
func TestImprove_GoesOnWithWhatFollowsAnExchange(t *testing.T) {
	r := crossed(t)
	moves, err := r.movesThatPay(t.Context(), r.now)
	if err != nil || len(moves) != 3 {
		t.Fatalf("%+v, %v", moves, err)
	}
	c := workload("c", "service", 64)
	r.report(psg.WorkloadChanged{Workload: c})
	r.cycle()
	r.place(0, gate(c, "c0", "n1"))
	r.report(psg.Moved{Ask: "c0", State: psg.Running, At: start})
	r.cycle()
	status, _ := r.Ask("c0")
	away := *status.Placement
	away.Node = "n3"
	r.config.Improvement.Every = 0 // no looks beside it
	moves = append(moves, placement.Move{From: "n1", Placement: away, Chain: 2})
	duty := func(ctx context.Context) error { return r.carryOut(ctx, moves) }
	if err := r.during(duty, "all is carried out", func() bool { return false }); err != nil {
		t.Error(err)
	}
	r.wantMoved("a n1>n3", "b n2>n1", "a n3>n2")
	if said := r.said.String(); !strings.Contains(said, `msg="not moved" workload=default/c/main reason="it no longer pays`) {
		t.Errorf("c is not rehearsed after the exchange:\n%s", said)
	}
}

// hurried is policy that is asked for the first time when somebody comes for a place.
type hurried struct {
	Policy
	comes func()
	asked *int
}

func (h hurried) Rule(ctx context.Context, w *psg.Workload, view *psg.Snapshot) (psg.Ruling, error) {
	if *h.asked++; *h.asked == 1 {
		h.comes()
	}
	return h.Policy.Rule(ctx, w, view)
}

func TestImprove_LetsNobodyWaitWhoComes(t *testing.T) {
	r := crossed(t)
	small := workload("small", "service", 64)
	r.report(psg.WorkloadChanged{Workload: small})
	r.cycle()
	policy, asked := r.policy(), 0
	comes := func() {
		if err := r.submit(t.Context(), []psg.Ask{gate(small, "s1", "n3")}); err != nil {
			t.Error(err)
		}
	}
	r.policy = func() Policy { return hurried{policy, comes, &asked} }
	if moves, err := r.movesThatPay(t.Context(), r.now); err != nil || len(moves) > 0 || asked != 1 {
		t.Errorf("%+v, %v; policy was asked %d times, want once", moves, err, asked)
	}
	if strings.Contains(r.said.String(), "too long") {
		t.Errorf("policy is blamed:\n%s", r.said)
	}
	r.cycle()
	if moves, err := r.movesThatPay(t.Context(), r.now); err != nil || len(moves) == 0 {
		t.Errorf("once that is answered: %+v, %v", moves, err)
	}
}
