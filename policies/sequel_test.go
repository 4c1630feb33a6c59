package policies

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

func placed(id psg.RequestID, w *psg.Workload, on psg.NodeID) psg.Placement {
	return psg.Placement{Ask: psg.Ask{ID: id, Workload: w.ID}, Node: on, State: psg.Granted}
}

// goldNode runs gold inference: at most one training may join it.
func goldNode(t *testing.T) (*Set, *psg.Workload, *psg.Snapshot) {
	t.Helper()
	set, err := Load("library/gpu_colocation")
	if err != nil {
		t.Fatal(err)
	}
	gold, training := gpuJob("inference", 1), gpuJob("training", 1)
	gold.Tier = "gold"
	view := cluster([]*psg.Workload{gold}, []*psg.Workload{gold})
	view.Workloads = append(view.Workloads, *training)
	view.Sort()
	return set, training, view
}

func TestSequel_SeesWhatTheRulingCouldNot(t *testing.T) {
	set, training, view := goldNode(t)
	if denials := rule(t, set, training, view).Denials; denials != nil {
		t.Fatalf("denied before anything was placed: %v", denials)
	}
	sequel := set.Sequel(view)
	for _, step := range []struct {
		placement psg.Placement
		denied    bool
	}{
		{placed("first", training, "n000"), false},
		{placed("second", training, "n000"), true},
		{placed("third", training, "n001"), false},
		{placed("second again", training, "n000"), true}, // what is denied does not count
	} {
		reasons, err := sequel.Admit(t.Context(), training, step.placement)
		if err != nil || len(reasons) > 0 != step.denied {
			t.Errorf("%s on %s: %v, %v", step.placement.Ask.ID, step.placement.Node, reasons, err)
		}
	}
	if sequel.Judged() != 2 {
		t.Errorf("policy was asked %d times, want 2", sequel.Judged())
	}
	sequel.Free("n000-000") // the gold workload
	if reasons, err := sequel.Admit(t.Context(), training, placed("fourth", training, "n000")); err != nil || reasons != nil {
		t.Errorf("still denied though the gold workload is gone: %v, %v", reasons, err)
	}
}

func TestSequel_EqualsRuleOnTheLaterSnapshot(t *testing.T) {
	set := everythingSet(t)
	inference, w := gpuJob("inference", 1), gpuJob("training", 1)
	view := cluster([]*psg.Workload{inference}, nil)
	first := placed("x", inference, "n000")
	later := *view
	later.Placements = withMore(view.Placements, first)
	later.Sort()
	want := rule(t, set, w, &later).Why(0)

	sequel := set.Sequel(view)
	if _, err := sequel.Admit(t.Context(), inference, first); err != nil {
		t.Fatal(err)
	}
	got, err := sequel.Admit(t.Context(), w, placed("y", w, "n000"))
	if err != nil || len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

func TestSequel_KnowsItsLimits(t *testing.T) {
	set, view, w := everythingSet(t), cluster(nil), gpuJob("training", 1)
	sequel := set.Sequel(view)
	if _, err := sequel.Admit(t.Context(), w, placed("a", w, "elsewhere")); !errors.Is(err, psg.ErrUnknown) {
		t.Error(err)
	}
	if _, err := sequel.Admit(t.Context(), w, placed("a", w, "n000")); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := sequel.Admit(ctx, w, placed("b", w, "n000")); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestSequel_LeavesOutAuditAndOtherScopes(t *testing.T) {
	set := mustLoad(t, Config{}, `
-- bundle.hcl --
bundle "b" {}
policy "watch" {
  rego = "p.rego"
  mode = "audit"
}
policy "others" {
  rego = "p.rego"
  scope {
    kinds = ["inference"]
  }
}
-- p.rego --
package p

deny contains "x" if count(input.node.workloads) > 0
`)
	for kind, want := range map[string]int{"training": 0, "inference": 1} {
		w, sequel := gpuJob(kind, 1), set.Sequel(cluster(nil))
		if _, err := sequel.Admit(t.Context(), w, placed("a", w, "n000")); err != nil {
			t.Fatal(err)
		}
		if reasons, err := sequel.Admit(t.Context(), w, placed("b", w, "n000")); err != nil || len(reasons) != want {
			t.Errorf("%s: %v, %v", kind, reasons, err)
		}
	}
}

func TestRule_OwnReservationsDoNotStandInTheWay(t *testing.T) {
	set, training, view := goldNode(t)
	reserved := placed("r/0", training, "n000")
	reserved.State, reserved.Ask.Hold = psg.Reserved, time.Minute
	view.Placements = withMore(view.Placements, reserved)
	view.Sort()
	if denials := rule(t, set, training, view).Denials; denials != nil {
		t.Errorf("its own reservation denies it: %v", denials)
	}
	other := gpuJob("training", 1)
	other.ID.Job = "other"
	if why := rule(t, set, other, view).Why(0); len(why) != 1 {
		t.Errorf("somebody else's reservation does not deny: %v", why)
	}
	another := reserved
	another.Ask.ID = "r/1"
	if reasons, err := set.Sequel(view).Admit(t.Context(), training, another); err != nil || len(reasons) != 1 {
		t.Errorf("a second reservation on the node: %v, %v, want it denied", reasons, err)
	}
	taken := placed("alloc", training, "n000")
	if reasons, err := set.Sequel(view).Admit(t.Context(), training, taken); err != nil || reasons != nil {
		t.Errorf("taking up the reservation: %v, %v", reasons, err)
	}
}

// What a sequel says of the cluster is what a snapshot would say that had been
// changed alike.
func TestSequel_KeepsTheTotalsOfTheCluster(t *testing.T) {
	set := mustLoad(t, Config{}, one("deny contains \"no\" if data.cluster.placed > 1000000\n"))
	r := rand.New(rand.NewPCG(3, 3))
	s, _ := fleet(r, 20)
	asking := askers(6)
	for i, w := range asking {
		w.Tenant = psg.TenantID(fmt.Sprintf("tenant-%d", i))
	}
	s.Workloads = append(s.Workloads, *asking[0])
	s.Sort()
	q := set.Sequel(s).(*sequel)
	q.cluster()
	after := *s
	for i := range 200 {
		row := r.IntN(len(s.Nodes))
		if i%3 == 0 {
			w := asking[r.IntN(len(asking))]
			p := placed(psg.RequestID(fmt.Sprintf("zz-%03d", i)), w, s.Nodes[row].ID)
			q.change(row, func(held []resident) []resident { return append(held, resident{&p, w}) })
			after.Placements = withMore(after.Placements, p)
		} else {
			at := r.IntN(after.Placements.Len())
			gone := slices.Collect(after.Placements.All())[at]
			row, _ := s.Row(gone.Node)
			without := func(p psg.Placement) bool { return p.Ask.ID == gone.Ask.ID }
			q.change(row, func(held []resident) []resident {
				return slices.DeleteFunc(held, func(r resident) bool { return without(*r.placement) })
			})
			after.Placements = nudged(after.Placements, at, nil)
		}
		residents := holdingOf(&after).residents
		for row := range residents {
			for j := range residents[row] {
				if r := &residents[row][j]; r.workload == nil {
					r.workload = workloadOf(asking, r.placement.Ask.Workload)
				}
			}
		}
		if got, want := q.cluster(), clusterDocument(&after, residents); !got.Equal(want) {
			t.Fatalf("after %d changes: %v, want %v", i+1, got, want)
		}
		if got, want := q.document(row).field(workloadsField()), newDocument(&s.Nodes[row], residents[row], nil).field(workloadsField()); !got.Equal(want) {
			t.Fatalf("after %d changes: row %d has %v, want %v", i+1, row, got, want)
		}
	}
}

func workloadsField() int {
	i, _ := fieldIndex("workloads")
	return i
}

func workloadOf(all []*psg.Workload, id psg.WorkloadID) *psg.Workload {
	for _, w := range all {
		if w.ID == id {
			return w
		}
	}
	return nil
}
