package policies

import (
	"fmt"
	"slices"
	"testing"

	"github.com/psgrid/psg"
)

func TestMemory_IsBounded(t *testing.T) {
	var m memory
	for i := range maxRemembered + 5 {
		m.keep(&psg.Workload{ID: psg.WorkloadID{Job: fmt.Sprint(i)}, Version: 1}, emptyView(), []opinions{newOpinions(0)})
	}
	if len(m.entries) != maxRemembered || m.recall(&psg.Workload{ID: psg.WorkloadID{Job: "4"}, Version: 1}) != nil ||
		m.recall(&psg.Workload{ID: psg.WorkloadID{Job: "5"}, Version: 1}) == nil {
		t.Errorf("%d remembered", len(m.entries))
	}
}

func TestMemory_TrustsNoVersionOfZero(t *testing.T) {
	set := mustLoad(t, Config{}, one("deny contains input.workload.labels.why if input.node.name\n"))
	w, view := gpuJob("training", 1), cluster(nil)
	w.Version = 0
	for _, why := range []string{"first", "second"} {
		w.Labels = map[string]string{"why": why}
		if got := rule(t, set, w, view).Why(0)[0].Text; got != why {
			t.Errorf("denied for %s, want %s", got, why)
		}
	}
}

func TestMemory_KeepsVerdictsWhileWhatTheyReadIsTheSame(t *testing.T) {
	// to_number keeps the policy from the columns.
	set := mustLoad(t, Config{}, one("deny contains \"many\" if to_number(input.node.attributes.n) > 1\n"))
	s := cluster(nil, nil)
	for i := range s.Nodes {
		s.Nodes[i].Attributes = map[string]string{"n": "1"}
	}
	w := gpuJob("training", 1)
	rule(t, set, w, s)
	next := *s
	next.Nodes = slices.Clone(s.Nodes)
	next.Nodes[0].Telemetry = &psg.Telemetry{}
	next.Nodes[0].Version, next.Nodes[0].Class = 2, "other"
	next.Nodes[1].Version, next.Nodes[1].Attributes = 2, map[string]string{"n": "2"}
	known := set.memory.recall(w).column(0, set.policies[0], set.viewer.of(&next, set.fed.Load()), &set.budget).verdicts
	if known[0] == nil || known[1] != nil {
		t.Errorf("of the node with other telemetry and class %t is known, of the one with another attribute %t", known[0] != nil, known[1] != nil)
	}
	if ruling := rule(t, set, w, &next); !ruling.Denied(2).Has(1) || ruling.Denied(2).Has(0) {
		t.Errorf("denied on %v", ruling.Denied(2))
	}
}
