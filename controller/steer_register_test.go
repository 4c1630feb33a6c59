package controller

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

// planned asks for a plan while cycles run.
func (w *world) planned(request psg.RequestID, workloads ...psg.Workload) ([]psg.Verdict, error) {
	w.Helper()
	type answer struct {
		verdicts []psg.Verdict
		err      error
	}
	ctx, cancel := context.WithTimeout(w.Context(), 10*time.Second)
	defer cancel()
	answered := make(chan answer, 1)
	go func() {
		verdicts, err := w.Plan(ctx, request, workloads)
		answered <- answer{verdicts, err}
	}()
	for {
		select {
		case got := <-answered:
			w.cycle()
			return got.verdicts, got.err
		default:
			w.cycle()
		}
	}
}

func TestPlan_ReservesForARegistrationAndItsAllocationsUseIt(t *testing.T) {
	web := workload("web", "service", 2048)
	web.Count, web.Version = 3, 0
	w := newWorld(t, tempLog(t), jobs{})
	w.report(psg.NodeChanged{Node: testNode("n1")}, psg.NodeChanged{Node: testNode("n2")})
	verdicts, err := w.planned("plan/1", web)
	if err != nil {
		t.Fatal(err)
	}
	hint := verdicts[0].Hint
	if hint["n1"]+hint["n2"] != 3 || len(verdicts[0].Waiting) > 0 || verdicts[0].Hold {
		t.Fatalf("verdict %+v, want three instances hinted", verdicts[0])
	}
	web.Version = 7
	w.report(psg.WorkloadChanged{Workload: web})
	i := 0
	for _, node := range []psg.NodeID{"n1", "n2"} {
		for range hint[node] {
			i++
			if order := w.place(0, gate(web, "a"+string(rune('0'+i)), node))[0]; order.Kind != psg.Grant {
				t.Errorf("instance on %s: %+v, want a grant", node, order)
			}
		}
	}
	if room := w.reserved(planPrefix); room != nil {
		t.Errorf("%+v is still reserved", room)
	}
	again, err := w.planned("plan/2", web)
	if err != nil || again[0].Hint["n1"] != hint["n1"] || w.reserved(planPrefix) != nil {
		t.Errorf("the same again: %+v, %v; want the hint it runs by, and nothing reserved", again, err)
	}
}

func TestPlan_KeepsNothingForWhatFindsNoRoom(t *testing.T) {
	web, gang := workload("web", "service", 3000), workload("gang", "training", 3000)
	web.Count, gang.Count, gang.Gang = 3, 3, "g"
	w := newWorld(t, tempLog(t), jobs{})
	w.report(psg.NodeChanged{Node: testNode("n1")})
	verdicts, err := w.planned("plan/1", web)
	if err != nil || len(verdicts[0].Waiting) != 2 || verdicts[0].Hold || verdicts[0].Hint["n1"] != 1 {
		t.Errorf("%+v, %v; want one hinted, two waiting, and no hold", verdicts, err)
	}
	if n := w.count(psg.Reserved); n != 1 {
		t.Errorf("%d reservations, want one: %v", n, w.standing())
	}
	verdicts, err = w.planned("plan/2", gang)
	if err != nil || !verdicts[0].Hold || verdicts[0].Hint != nil {
		t.Errorf("%+v, %v; want the gang held, and no hint", verdicts, err)
	}
	if n := w.count(psg.Reserved) + w.count(psg.Queued); n != 1 {
		t.Errorf("the gang holds or waits for something: %v", w.standing())
	}
}

func TestPlan_AbandonedLeavesNothingBehind(t *testing.T) {
	fresh, known := workload("fresh", "service", 64), workload("known", "service", 64)
	w := newWorld(t, tempLog(t), jobs{known.ID: known})
	w.report(psg.NodeChanged{Node: testNode("n1")}, psg.WorkloadChanged{Workload: known})
	bigger := known
	bigger.Request[psg.Memory] = 128
	if _, err := w.planned("plan/1", fresh, bigger); err != nil {
		t.Fatal(err)
	}
	if err := w.Abandon(t.Context(), "plan/1", []psg.WorkloadID{fresh.ID, known.ID}); err != nil {
		t.Fatal(err)
	}
	w.cycle()
	view := w.Snapshot()
	if view.Placements.Len() > 0 || len(view.Workloads) != 1 || view.Workloads[0].Request[psg.Memory] != 64 {
		t.Errorf("left: placements %v, workloads %+v; want the known one as it is registered", view.Placements, view.Workloads)
	}
}

func TestPlan_NeverRegisteredIsForgotten(t *testing.T) {
	web := workload("web", "service", 64)
	w := newWorld(t, tempLog(t), jobs{})
	w.report(psg.NodeChanged{Node: testNode("n1")})
	if _, err := w.planned("plan/1", web); err != nil {
		t.Fatal(err)
	}
	w.now = time.Now().Add(planHold + time.Second)
	w.cycle()
	w.cycle()
	if view := w.Snapshot(); view.Placements.Len() > 0 || len(view.Workloads) > 0 {
		t.Errorf("left: %v and %v", view.Placements, view.Workloads)
	}
}

func TestPlan_RejectedReservesNothing(t *testing.T) {
	web := workload("web", "service", 64)
	w := newWorld(t, tempLog(t), jobs{})
	w.report(psg.NodeChanged{Node: testNode("n1")})
	w.policy = always(rejecting{})
	verdicts, err := w.planned("plan/1", web)
	if err != nil || len(verdicts[0].Rejected) != 1 || len(w.standing()) > 0 {
		t.Errorf("%+v, %v, asks %v; want it rejected and nothing asked", verdicts, err, w.standing())
	}
	w.resign()
	if _, err := w.Judge(t.Context(), []psg.Workload{web}); !errors.Is(err, psg.ErrNotLeader) {
		t.Errorf("Judge without the lead = %v", err)
	}
}

// rejecting is a policy that admits nothing.
type rejecting struct{ Policy }

func (rejecting) Rule(_ context.Context, w *psg.Workload, _ *psg.Snapshot) (psg.Ruling, error) {
	return psg.Ruling{Workload: w.ID, Rejected: []psg.Reason{{Source: "policy no", Text: "no"}}}, nil
}
