package controller

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

// lowly is a workload that makes way for others.
func lowly(job string, memory int64) psg.Workload {
	w := workload(job, "service", memory)
	w.Priority, w.Preemptible = 10, true
	return w
}

func urgent(job string, memory int64) psg.Workload {
	w := workload(job, "service", memory)
	w.Priority = 90
	return w
}

type preempted struct {
	orders  []psg.Order
	refused *psg.Refusal
	err     error
}

// preempts asks while cycles run, as if somebody carried stops out.
func (w *world) preempts(ask psg.RequestID, node psg.NodeID, most int) preempted {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 20*time.Second)
	defer cancel()
	w.evictions.carried.Store(true)
	defer w.evictions.carried.Store(false)
	answered := make(chan preempted, 1)
	go func() {
		orders, refused, err := w.Controller.Preempt(ctx, ask, node, most)
		answered <- preempted{orders, refused, err}
	}()
	for {
		select {
		case got := <-answered:
			return got
		default:
			w.cycle()
		}
	}
}

// evicted runs the duty until so many allocations have been stopped.
func (w *world) evicted(nomad *director, n int) []psg.AllocID {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 10*time.Second)
	defer cancel()
	duty := make(chan error, 1)
	go func() { duty <- w.MakeWay(ctx, nomad) }()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for {
		if _, stopped := nomad.told(); len(stopped) == n {
			cancel()
			<-duty
			return stopped
		}
		select {
		case <-ctx.Done():
			w.Fatalf("%d are not stopped within 10 s", n)
		case <-poll.C:
		}
	}
}

// full is a world whose node n1 holds low allocations l1 and l2, and where u1 of
// an urgent workload that wants all of it waits at its gate.
func full(t *testing.T) (*world, psg.Workload, psg.Workload) {
	low, high := lowly("low", 2048), urgent("high", 4096)
	w := newWorld(t, tempLog(t), jobs{low.ID: low, high.ID: high})
	w.report(psg.NodeChanged{Node: testNode("n1")})
	w.place(0, gate(low, "l1", "n1"), gate(low, "l2", "n1"))
	w.report(psg.Moved{Ask: "l1", State: psg.Running, At: start}, psg.Moved{Ask: "l2", State: psg.Running, At: start})
	if order := w.place(0, gate(high, "u1", "n1"))[0]; order.Kind != psg.Wait {
		t.Fatalf("u1: %+v, want wait", order)
	}
	return w, low, high
}

func TestPreempt_StopsThenGrants(t *testing.T) {
	w, low, _ := full(t)
	got := w.preempts("u1", "", 0)
	if got.err != nil || got.refused != nil || len(got.orders) != 2 || got.orders[0].Kind != psg.Stop || got.orders[0].Alloc != "l1" {
		t.Fatalf("%+v, want two stops", got)
	}
	order, _ := orderFor(w.Controller.state.Ask("u1"), 1)
	if order.Kind != psg.Wait || !strings.Contains(order.Refusal.Summary, "room is being made on n1: 2 of lower priority end for it") {
		t.Fatalf("before they have ended: %+v %+v", order, order.Refusal)
	}
	nomad := &director{}
	if stopped := w.evicted(nomad, 2); stopped[0] != "l1" || stopped[1] != "l2" {
		t.Errorf("stopped %v", stopped)
	}
	if again := w.preempts("u1", "", 0); len(again.orders) != 2 || again.refused != nil || again.err != nil {
		t.Errorf("asked again: %+v", again)
	}
	w.report(psg.Freed{Ask: "l1", State: psg.Released, Reason: "stopped", At: start})
	if order := w.place(0, gate(low, "l3", "n1"))[0]; order.Kind != psg.Wait {
		t.Fatalf("what started in place of l1 got the room: %+v", order)
	}
	w.report(psg.Freed{Ask: "l2", State: psg.Released, Reason: "stopped", At: start})
	w.cycle()
	if order, _ := orderFor(w.Controller.state.Ask("u1"), 1); order.Kind != psg.Grant || w.state("u1") != psg.Granted {
		t.Fatalf("when both are gone: %+v", order)
	}
	if status, _ := w.Ask("l2"); status.Reason != "preempted for u1: stopped" {
		t.Errorf("l2 ended because of %q", status.Reason)
	}
	if done := w.preempts("u1", "", 0); len(done.orders) != 0 || done.refused != nil || done.err != nil {
		t.Errorf("with a place: %+v", done)
	}
	w.checkLog()
}

func TestPreempt_GivesUpWhatDoesNotComeToPass(t *testing.T) {
	for name, spoil := range map[string]func(*world){
		"did not end within": func(w *world) { w.now = w.now.Add(preemptWithin) },
		"is not ready": func(w *world) {
			n := testNode("n1")
			n.Version, n.Ready = 2, false
			w.report(psg.NodeChanged{Node: n})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, _, _ := full(t)
			if got := w.preempts("u1", "", 0); len(got.orders) != 2 {
				t.Fatalf("%+v", got)
			}
			spoil(w)
			w.now = w.now.Add(-time.Millisecond)
			w.cycle()
			status, _ := w.Ask("u1")
			if status.State != psg.Queued || !strings.Contains(status.Refusal.Summary, "preemption given up") || !strings.Contains(status.Refusal.Summary, name) {
				t.Errorf("u1 is %s: %+v", status.State, status.Refusal)
			}
			if w.inWay("l1") {
				t.Error("l1 is to make way still")
			}
			w.checkLog()
		})
	}
}

func TestPreempt_TwoNeverTakeTheSameVictim(t *testing.T) {
	w, _, high := full(t)
	w.place(0, gate(high, "u2", "n1"))
	if got := w.preempts("u1", "", 0); len(got.orders) != 2 {
		t.Fatalf("%+v", got)
	}
	if got := w.preempts("u2", "", 0); got.err != nil || got.refused == nil || !strings.Contains(got.refused.Summary, "on no node would it fit") {
		t.Errorf("%+v, want a refusal", got)
	}
	w.report(psg.Freed{Ask: "u1", State: psg.Released, At: start}) // the preemptor ends first
	w.cycle()
	if got := w.preempts("u2", "", 0); len(got.orders) != 2 {
		t.Errorf("once they are free again: %+v", got)
	}
	w.checkLog()
}

// guarded protects one workload.
type guarded struct {
	Policy
	kept psg.WorkloadID
}

func (g guarded) Rule(ctx context.Context, w *psg.Workload, view *psg.Snapshot) (psg.Ruling, error) {
	ruling, err := g.Policy.Rule(ctx, w, view)
	if w.ID == g.kept {
		ruling.Protected = []psg.Reason{{Source: "policy keep", Text: "payday"}}
	}
	return ruling, err
}

func TestPreempt_NeverTakesWhatPolicyProtects(t *testing.T) {
	w, low, _ := full(t)
	policy := w.policy()
	w.policy = func() Policy { return guarded{policy, low.ID} }
	if got := w.preempts("u1", "", 0); got.refused == nil || len(got.orders) > 0 {
		t.Errorf("%+v, want a refusal", got)
	}
}

// lonely denies whatever is to be alone on a node.
type lonely struct{ Policy }

func (l lonely) Sequel(view *psg.Snapshot) psg.Sequel {
	return &lonelySequel{l.Policy.Sequel(view), view.Placements.Len()}
}

type lonelySequel struct {
	psg.Sequel
	left int
}

func (l *lonelySequel) Free(psg.RequestID) { l.left-- }

func (l *lonelySequel) Admit(ctx context.Context, w *psg.Workload, p psg.Placement) ([]psg.Reason, error) {
	if l.left == 0 {
		return []psg.Reason{{Source: "policy company", Text: "alone"}}, nil
	}
	return l.Sequel.Admit(ctx, w, p)
}

func TestPreempt_AsksPolicyAboutTheAskInTheirPlace(t *testing.T) {
	w, _, _ := full(t)
	policy := w.policy()
	w.policy = func() Policy { return lonely{policy} }
	if got := w.preempts("u1", "", 0); got.refused == nil || got.refused.Summary != "policy company: alone" {
		t.Errorf("%+v, want policy to deny it", got)
	}
	if w.inWay("l1") {
		t.Error("l1 is to make way for nothing")
	}
}

func TestPreempt_KeepsToTheMostThatMayEnd(t *testing.T) {
	w, _, _ := full(t)
	if got := w.preempts("u1", "n1", 1); got.refused == nil || !strings.Contains(got.refused.Summary, "it takes 2 victims, on n1, and at most 1 are allowed") {
		t.Errorf("%+v %+v", got, got.refused)
	}
}

func TestPreempt_ReservesWhereItsAllocationIsNot(t *testing.T) {
	stays, low, high := workload("stays", "service", 4096), lowly("low", 4096), urgent("high", 4096)
	w := newWorld(t, tempLog(t), jobs{stays.ID: stays, low.ID: low, high.ID: high})
	w.report(psg.NodeChanged{Node: testNode("n1")}, psg.NodeChanged{Node: testNode("n2")})
	w.place(0, gate(stays, "s", "n1"), gate(low, "l", "n2"))
	w.place(0, gate(high, "u1", "n1"))
	if got := w.preempts("u1", "", 0); len(got.orders) != 1 || got.orders[0].Alloc != "l" {
		t.Fatalf("%+v, want l on n2 stopped", got)
	}
	w.report(psg.Freed{Ask: "l", State: psg.Released, At: start})
	w.cycle()
	w.cycle()
	if status, _ := w.Ask("u1"); status.State != psg.Elsewhere || status.Refusal.Node != "n2" {
		t.Fatalf("u1 is %s: %+v, want it planned on n2", status.State, status.Refusal)
	}
	w.report(psg.Freed{Ask: "u1", State: psg.Released, At: start}) // as steering has it stopped
	if order := w.place(0, gate(high, "u2", "n2"))[0]; order.Kind != psg.Grant {
		t.Errorf("what started on n2: %+v", order)
	}
	w.checkLog()
}

func TestPreempt_HeldJobStartsOnceTheyAreGone(t *testing.T) {
	low, high := lowly("low", 4096), urgent("high", 4096)
	high.Held = true
	w := newWorld(t, tempLog(t), jobs{low.ID: low})
	w.report(psg.NodeChanged{Node: testNode("n1")})
	w.place(0, gate(low, "l", "n1"))
	w.report(psg.WorkloadChanged{Workload: high})
	w.cycle()
	w.cycle()
	var ask psg.RequestID
	for _, status := range w.Asks() {
		if status.Ask.Workload == high.ID {
			ask = status.Ask.ID
		}
	}
	if got := w.preempts(ask, "", 0); len(got.orders) != 1 {
		t.Fatalf("%s: %+v", ask, got)
	}
	if workloads, asks := w.job(high.ID.JobID()); releasable(workloads, asks) {
		t.Error("it would start beside what is yet to end")
	}
	w.report(psg.Freed{Ask: "l", State: psg.Released, At: start})
	w.cycle()
	if workloads, asks := w.job(high.ID.JobID()); !releasable(workloads, asks) {
		t.Errorf("it does not start: %+v", asks)
	}
}

func TestPreempt_GoesOnUnderTheNextLeader(t *testing.T) {
	dir := t.TempDir()
	log, stop := openLog(t, dir)
	low, high := lowly("low", 4096), urgent("high", 4096)
	known := jobs{low.ID: low, high.ID: high}
	w := newWorld(t, log, known)
	w.report(psg.NodeChanged{Node: testNode("n1")})
	w.place(0, gate(low, "l", "n1"))
	w.place(0, gate(high, "u1", "n1"))
	if got := w.preempts("u1", "", 0); len(got.orders) != 1 {
		t.Fatalf("%+v", got)
	}
	stop() // before anybody was stopped
	log, _ = openLog(t, dir)
	next := newWorld(t, log, known)
	next.now = w.now
	if stopped := next.evicted(&director{}, 1); stopped[0] != "l" {
		t.Errorf("stopped %v", stopped)
	}
	next.report(psg.Freed{Ask: "l", State: psg.Released, At: start})
	next.cycle()
	if next.state("u1") != psg.Granted {
		t.Errorf("u1 is %s", next.state("u1"))
	}
	next.checkLog()
}

func TestPreempt_SaysWhatIsWrong(t *testing.T) {
	w, _, _ := full(t)
	if _, _, err := w.Controller.Preempt(t.Context(), "u1", "", 0); !errors.Is(err, psg.ErrUnavailable) {
		t.Errorf("with nobody to stop anything: %v", err)
	}
	if got := w.preempts("nobody", "", 0); !errors.Is(got.err, psg.ErrUnknown) {
		t.Errorf("unknown ask: %+v", got)
	}
	if got := w.preempts("u1", "", -1); !errors.Is(got.err, psg.ErrInvalid) {
		t.Errorf("fewer than no victims: %+v", got)
	}
	w.report(psg.Freed{Ask: "l1", State: psg.Released, At: start})
	w.cycle()
	if got := w.preempts("l1", "", 0); !errors.Is(got.err, psg.ErrInvalid) {
		t.Errorf("an ask that is over: %+v", got)
	}
	w.resign()
	if _, _, err := w.Controller.Preempt(t.Context(), "u1", "", 0); !errors.Is(err, psg.ErrNotLeader) {
		t.Errorf("without the lead: %v", err)
	}
}
