package controller

import (
	"strings"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

// shiftable3 is spread3 with an update block that lets canaries promote
// themselves.
func shiftable3(t *testing.T, disruption *psg.Disruption) (*world, psg.Workload) {
	web := workload("web", "service", 512)
	web.Count, web.Disruption = 3, disruption
	web.Update = &psg.Update{MaxParallel: 1, HealthCheck: "checks", HealthyDeadline: time.Minute}
	w := newWorld(t, tempLog(t), jobs{web.ID: web})
	w.report(psg.NodeChanged{Node: testNode("n1")}, psg.NodeChanged{Node: testNode("n2")})
	for _, alloc := range []string{"w1", "w2", "w3"} {
		w.place(0, gate(web, alloc, "n1"))
		w.report(psg.Moved{Ask: psg.RequestID(alloc), State: psg.Running, At: start})
	}
	w.cycle()
	return w, web
}

func (d *director) says(state psg.ShiftState) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shift = state
}

func (d *director) last() psg.Steering {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.steered[len(d.steered)-1]
}

// attended has a job attended to while cycles run.
func (w *world) attended(job psg.JobID, to Orchestrator) {
	w.Helper()
	done := make(chan error, 1)
	go func() { done <- w.attend(w.Context(), job, to) }()
	for {
		select {
		case err := <-done:
			if err != nil {
				w.Error(err)
			}
			w.cycle()
			return
		default:
			w.cycle()
		}
	}
}

// begunShift is a shift of all three instances from n1 to n2 under way.
func begunShift(t *testing.T) (*world, psg.Workload, *director) {
	w, web := shiftable3(t, nil)
	nomad := &director{shift: psg.ShiftRuns}
	nomad.onSteer = func(s psg.Steering) {
		if room := w.reserved(movePrefix); room == nil || room.Node != "n2" {
			t.Errorf("registered before the destination was reserved: %+v", room)
		}
	}
	orders, err := w.rebalanced(nomad, "n1")
	if err != nil || len(orders) != 3 || orders[0].Kind != psg.Steer || orders[0].Node != "n2" {
		t.Fatalf("orders %+v, %v; want all three moved at once, others first", orders, err)
	}
	nomad.onSteer = nil
	s := nomad.last()
	if s.Shifts["main"] != (psg.Shift{From: "n1", Moves: 3}) || s.Hints["main"]["n2"] != 3 || s.Hints["main"]["n1"] != 0 || s.Supersede {
		t.Fatalf("registered %+v", s)
	}
	if _, stopped := nomad.told(); len(stopped) != 0 {
		t.Fatalf("stopped %v", stopped)
	}
	return w, web, nomad
}

func TestRebalance_StartsOthersFirstWhereTheGroupAllowsIt(t *testing.T) {
	w, web, nomad := begunShift(t)
	for _, alloc := range []string{"x1", "x2", "x3"} {
		if order := w.place(0, gate(web, alloc, "n2"))[0]; order.Kind != psg.Grant {
			t.Fatalf("%+v, want the successor granted at the destination", order)
		}
		w.report(psg.Moved{Ask: psg.RequestID(alloc), State: psg.Running, At: start.Add(time.Second)})
	}
	w.cycle()
	w.steers.open(nomad) // a new leader's duty: what it knows of the shift it has from the ledger
	web.Shifting, web.Version = true, 9
	w.report(psg.WorkloadChanged{Workload: web})
	w.cycle()
	w.attended(web.ID.JobID(), nomad)
	if before := nomad.last(); before.Shifts == nil {
		t.Fatalf("steered %+v while the shift runs", before)
	}
	for _, alloc := range []string{"w1", "w2", "w3"} {
		w.report(psg.Freed{Ask: psg.RequestID(alloc), State: psg.Released, At: start.Add(2 * time.Second)})
	}
	nomad.says(psg.ShiftDone)
	w.attended(web.ID.JobID(), nomad)
	if s := nomad.last(); s.Shifts != nil || s.Abandon || s.Hints["main"]["n2"] != 3 || len(s.Hints["main"]) != 1 {
		t.Errorf("at the end steered %+v, want the steady hint to n2", s)
	}
}

func TestRebalance_GivesAShiftUpAndKeepsTheSource(t *testing.T) {
	for name, spoil := range map[string]func(*world, psg.Workload, *director){
		"its successors do not become healthy": func(_ *world, _ psg.Workload, d *director) { d.says(psg.ShiftFailed) },
		"the destination is lost": func(w *world, _ psg.Workload, _ *director) {
			down := testNode("n2")
			down.Ready, down.Version = false, down.Version+1
			w.report(psg.NodeChanged{Node: down})
		},
		"its successor ends": func(w *world, web psg.Workload, _ *director) {
			w.place(0, gate(web, "x1", "n2"))
			w.report(psg.Freed{Ask: "x1", State: psg.Released, Reason: "failed", At: start})
		},
		"the room is lost": func(w *world, _ psg.Workload, _ *director) {
			w.report(psg.Freed{Ask: w.reserved(movePrefix).Ask.ID, State: psg.Lost, At: start})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, web, nomad := begunShift(t)
			spoil(w, web, nomad)
			w.cycle()
			w.steers.to = nomad
			w.attended(web.ID.JobID(), nomad)
			if s := nomad.last(); !s.Abandon || s.Hints["main"]["n1"] != 3 || len(s.Hints["main"]) != 1 {
				t.Errorf("steered %+v, want the hint back to n1", s)
			}
			if n := w.count(psg.Running); n != 3 || w.reserved(movePrefix) != nil {
				t.Errorf("%d run: %v; want three, and nothing reserved", n, w.standing())
			}
			if status, _ := w.Ask("w1"); !strings.HasPrefix(status.Reason, "not moved: ") {
				t.Errorf("the source's reason is %q", status.Reason)
			}
			if again, err := w.Rebalance(t.Context(), psg.Rebalance{Node: "n1", Empty: true}); err != nil || len(again.Orders) > 0 {
				t.Errorf("asked again at once: %+v, %v; want it to rest", again, err)
			}
		})
	}
}

func TestRebalance_KeepsToTheDisruptionBlock(t *testing.T) {
	for name, one := range map[string]struct {
		disruption psg.Disruption
		refuse     error
		want       int
		kind       psg.OrderKind
	}{
		"start first":                  {psg.Disruption{Order: psg.StartFirst}, nil, 3, psg.Steer},
		"start first, and cannot":      {psg.Disruption{Order: psg.StartFirst, MaxUnavailable: 2}, psg.ErrInvalid, 0, ""},
		"stop first":                   {psg.Disruption{Order: psg.StopFirst, MaxUnavailable: 1}, nil, 1, psg.Stop},
		"none may be down":             {psg.Disruption{}, nil, 3, psg.Steer},
		"none may be down, and cannot": {psg.Disruption{}, psg.ErrBusy, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := shiftable3(t, &one.disruption)
			orders, err := w.rebalanced(&director{refuse: one.refuse}, "n1")
			if err != nil || len(orders) != one.want || len(orders) > 0 && orders[0].Kind != one.kind {
				t.Errorf("orders %+v, %v; want %d to %s", orders, err, one.want, one.kind)
			}
		})
	}
}

func TestRebalance_TellsWhatAMoveCameTo(t *testing.T) {
	w, web := spread3(t)
	nomad := &director{}
	w.steers.open(nomad)
	orders, err := w.rebalanced(nomad, "n1")
	if err != nil || len(orders) != 1 {
		t.Fatalf("%v, %v", orders, err)
	}
	source := psg.RequestID(orders[0].Alloc)
	w.report(psg.Freed{Ask: source, State: psg.Released, At: start.Add(time.Second)})
	w.place(0, gate(web, "w4", "n2"))
	w.report(psg.Moved{Ask: "w4", State: psg.Running, At: start.Add(1400 * time.Millisecond)})
	w.cycle()
	if err := w.finish(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	w.cycle()
	ended := w.steers.finishedFrom("n1")
	if len(ended) != 1 || ended[0].Successor != "w4" || ended[0].Gap != 400*time.Millisecond || ended[0].Versions != 1 || ended[0].Writes != 2 {
		t.Errorf("finished %+v", ended)
	}
	if status, _ := w.Ask("w4"); !strings.Contains(status.Reason, "gap 400ms, 1 job versions and 2 write requests") {
		t.Errorf("the successor's reason is %q", status.Reason)
	}
	if f := w.Figures(); f.Moves != 1 || f.Gap != 400*time.Millisecond {
		t.Errorf("figures %+v", f)
	}
}

func TestSteer_TakesBackHintsToALostNode(t *testing.T) {
	w, web := spread3(t)
	nomad := &director{}
	for _, alloc := range []string{"w1", "w2", "w3"} {
		w.steers.to = nomad
		w.report(psg.Freed{Ask: psg.RequestID(alloc), State: psg.Lost, At: start})
	}
	w.report(psg.NodeGone{Node: "n1"})
	w.cycle()
	w.attended(web.ID.JobID(), nomad)
	if steered, _ := nomad.told(); len(steered) != 0 {
		t.Fatalf("steered %+v before the work is placed again", steered)
	}
	for _, alloc := range []string{"x1", "x2", "x3"} {
		w.place(0, gate(web, alloc, "n2"))
	}
	w.attended(web.ID.JobID(), nomad)
	if s := nomad.last(); len(s.Gone) != 1 || s.Gone[0] != "n1" || s.Hints["main"]["n2"] != 3 {
		t.Errorf("steered %+v, want n1 taken out", s)
	}
	w.attended(web.ID.JobID(), nomad)
	if steered, _ := nomad.told(); len(steered) != 1 {
		t.Errorf("steered %d times", len(steered))
	}
}

func TestRebalance_LeavesAShiftThatSomebodyReplaced(t *testing.T) {
	w, web, nomad := begunShift(t)
	written, _ := nomad.told()
	nomad.says(psg.ShiftGone)
	w.steers.to = nomad
	w.attended(web.ID.JobID(), nomad)
	if steered, stopped := nomad.told(); len(steered) != len(written) || len(stopped) > 0 {
		t.Errorf("steered %+v, stopped %v; want the job left as it is", steered[len(written):], stopped)
	}
	if n := w.count(psg.Running); n != 3 || w.reserved(movePrefix) != nil || w.steers.shiftOf(web.ID.JobID()) != nil {
		t.Errorf("%d run: %v", n, w.standing())
	}
}

func TestRebalance_TheSteadyHintIsWithoutSourcesThatAreSeenRunning(t *testing.T) {
	w, web, nomad := begunShift(t)
	for _, alloc := range []string{"x1", "x2", "x3"} {
		w.place(0, gate(web, alloc, "n2"))
	}
	w.report(psg.Moved{Ask: "w1", State: psg.Running, At: start}) // as with each change that Nomad tells of
	w.cycle()
	w.steers.to = nomad
	nomad.says(psg.ShiftDone)
	w.attended(web.ID.JobID(), nomad)
	if s := nomad.last(); s.Shifts != nil || s.Hints["main"]["n2"] != 3 || len(s.Hints["main"]) != 1 {
		t.Errorf("steered %+v, want the steady hint to n2 alone", s)
	}
}

func TestRebalance_TheNextLeaderGivesBackTheRoomOfAShiftThatFails(t *testing.T) {
	w, web, nomad := begunShift(t)
	web.Shifting, web.Version = true, 9
	w.report(psg.WorkloadChanged{Workload: web}, psg.Moved{Ask: "w1", State: psg.Running, At: start})
	w.cycle()
	w.steers.open(nomad)
	nomad.says(psg.ShiftFailed)
	w.attended(web.ID.JobID(), nomad)
	if s := nomad.last(); !s.Abandon || s.Hints["main"]["n1"] != 3 || len(s.Hints["main"]) != 1 {
		t.Errorf("steered %+v, want the hint back to n1 alone", s)
	}
	if room := w.reserved(movePrefix); room != nil {
		t.Errorf("%+v is still reserved", room)
	}
}

func TestSteer_KeepsTheShiftThatItBegan(t *testing.T) {
	s, job := newSteers(), psg.JobID{Namespace: "default", Job: "web"}
	begun := &shift{}
	s.begin(job, begun, start)
	if runs, kept := s.keep(job, 7, &shift{}); runs != begun || kept || s.shiftOf(job) != begun {
		t.Error("another took its place, as read from the ledger")
	}
	if runs, kept := s.keep(psg.JobID{Job: "other"}, 1, nil); runs != nil || kept || len(s.shifts) != 1 {
		t.Error("kept nothing as something")
	}
	s.end(job, 7)
	if runs, _ := s.keep(job, 7, &shift{}); runs != nil {
		t.Error("took up again what has ended, as the ledger showed it last")
	}
	later := &shift{}
	if runs, kept := s.keep(job, 8, later); runs != later || !kept {
		t.Error("another version's is not taken up")
	}
}

func TestSteer_ForgetsTheLossOfAJobThatIsGone(t *testing.T) {
	w, web := spread3(t)
	nomad := &director{refuse: psg.ErrUnknown}
	w.steers.to = nomad
	for _, alloc := range []string{"w1", "w2", "w3"} {
		w.report(psg.Freed{Ask: psg.RequestID(alloc), State: psg.Lost, At: start})
	}
	w.report(psg.NodeGone{Node: "n1"}, psg.WorkloadGone{Workload: web.ID})
	w.cycle()
	w.attended(web.ID.JobID(), nomad)
	if gone, _ := w.steers.goneFrom(web.ID.JobID()); len(gone) > 0 {
		t.Errorf("it is looked at for ever for %v", gone)
	}
}
