package policies

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/psgrid/psg"
)

func TestRecheck_SeesWhatTheRulingCouldNot(t *testing.T) {
	set, err := Load("library/gpu_colocation")
	if err != nil {
		t.Fatal(err)
	}
	gold, training := gpuJob("inference", 1), gpuJob("training", 1)
	gold.Tier = "gold"
	view := cluster([]*psg.Workload{gold}, []*psg.Workload{gold})
	view.Workloads = append(view.Workloads, *training)
	view.Sort()
	if denials := rule(t, set, training, view).Denials; denials != nil {
		t.Fatalf("denied before anything was placed: %v", denials)
	}
	first := psg.Placement{Ask: psg.Ask{ID: "first", Workload: training.ID}, Node: "n000", State: psg.Granted}
	for _, c := range []struct {
		node   psg.NodeID
		placed []psg.Placement
		want   int
	}{{"n000", nil, 0}, {"n000", []psg.Placement{first}, 1}, {"n001", []psg.Placement{first}, 0}} {
		reasons, err := set.Recheck(t.Context(), training, view, c.placed, c.node)
		if err != nil || len(reasons) != c.want {
			t.Errorf("%s with %d placed: %v, %v", c.node, len(c.placed), reasons, err)
		}
	}
	moved := view.Placements[0]
	moved.Node = "n001"
	if reasons, err := set.Recheck(t.Context(), training, view, []psg.Placement{first, moved}, "n000"); err != nil || reasons != nil {
		t.Errorf("still denied though the gold workload moved: %v, %v", reasons, err)
	}
}

func TestRecheck_EqualsRuleOnTheLaterSnapshot(t *testing.T) {
	set := everythingSet(t)
	view := cluster([]*psg.Workload{gpuJob("inference", 1)}, nil)
	w := gpuJob("training", 1)
	placed := []psg.Placement{{Ask: psg.Ask{ID: "x", Workload: psg.WorkloadID{Namespace: "default", Job: "job-inference", Group: "g"}}, Node: "n000", State: psg.Granted}}
	later := *view
	later.Placements = append(slices.Clone(view.Placements), placed...)
	later.Sort()
	want := rule(t, set, w, &later).Why(0)
	got, err := set.Recheck(t.Context(), w, view, placed, "n000")
	if err != nil || len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

func TestRecheck_KnowsItsLimits(t *testing.T) {
	set, view := everythingSet(t), cluster(nil)
	if _, err := set.Recheck(t.Context(), gpuJob("training", 1), view, nil, "elsewhere"); !errors.Is(err, psg.ErrUnknown) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := set.Recheck(ctx, gpuJob("training", 1), view, nil, "n000"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestRecheck_LeavesOutAuditAndOtherScopes(t *testing.T) {
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

deny contains "x" if input.node.name
`)
	for kind, want := range map[string]int{"training": 0, "inference": 1} {
		reasons, err := set.Recheck(t.Context(), gpuJob(kind, 1), cluster(nil), nil, "n000")
		if err != nil || len(reasons) != want {
			t.Errorf("%s: %v, %v", kind, reasons, err)
		}
	}
}
