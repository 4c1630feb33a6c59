package policies

import (
	"fmt"
	"testing"

	"github.com/psgrid/psg"
)

func TestMemory_IsBounded(t *testing.T) {
	var m memory
	for i := range maxRemembered + 5 {
		m.keep(&psg.Workload{ID: psg.WorkloadID{Job: fmt.Sprint(i)}, Version: 1}, emptyView(), []verdicts{{}})
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
