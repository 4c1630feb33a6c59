package policies

import (
	"slices"
	"testing"

	"github.com/psgrid/psg"
)

// What was decided may stand while the words for it do not.
func TestRule_ExplainsWhatStandsByTheLaterView(t *testing.T) {
	set := mustLoad(t, Config{Sample: -1}, `
-- bundle.hcl --
bundle "b" {}
policy "p" {
  rego = "p.rego"
}
policy "q" {
  rego = "q.rego"
  mode = "audit"
}
-- p.rego --
package p

deny contains reason if {
	count(input.node.workloads) > 0
	reason := sprintf("%d run", [count(input.node.workloads)])
}
-- q.rego --
package q

reject contains "no training" if input.workload.kind == "training"
`)
	w := gpuJob("training", 1)
	one := cluster([]*psg.Workload{gpuJob("inference", 1)})
	two := cluster([]*psg.Workload{gpuJob("inference", 1), gpuJob("batch", 0)})
	none := cluster(nil)
	rule(t, set, w, one) // which asks OPA about the workload alone
	first := rule(t, set, w, one)
	kept := set.classes[w.ID].kept
	if kept == nil {
		t.Fatal("the ruling is not kept")
	}
	for _, c := range []struct {
		view *psg.Snapshot
		want []string
	}{{one, []string{"1 run"}}, {two, []string{"2 run"}}, {one, []string{"1 run"}}} {
		got := rule(t, set, w, c.view)
		if why := texts(got.Why(0)); !slices.Equal(why, c.want) {
			t.Errorf("got %q, want %q", why, c.want)
		}
		if audit := texts(got.WhyAudit(0)); !slices.Equal(audit, []string{"no training"}) || len(got.Audit) != 1 {
			t.Errorf("audit %q, %v", audit, got.Audit)
		}
	}
	if set.classes[w.ID].kept != kept {
		t.Error("it was made anew though it stands")
	}
	if why := texts(first.Why(0)); !slices.Equal(why, []string{"1 run"}) {
		t.Errorf("the first ruling now says %q", why)
	}
	if got := rule(t, set, w, none); got.Why(0) != nil || got.Denied(1).Has(0) || len(got.WhyAudit(0)) != 1 {
		t.Errorf("denied on an empty node: %v, audit %v", got.Why(0), got.WhyAudit(0))
	}
}

// A ruling is kept for so many classes only.
func TestRule_KeepsNotMoreThanSoManyRulings(t *testing.T) {
	set := mustLoad(t, Config{Sample: -1}, one("deny contains \"no\" if input.node.name == \"none\"\n"))
	view := cluster(nil)
	first := gpuJob("training", 1)
	rule(t, set, first, view)
	for _, w := range askers(maxRulings) {
		w.ID.Group = w.ID.Job + w.ID.Group
		rule(t, set, w, view)
	}
	n := 0
	for _, c := range set.classes {
		if c.kept != nil {
			n++
		}
	}
	if n != maxRulings || set.classes[first.ID].kept != nil {
		t.Errorf("%d rulings are kept, want %d, and not the oldest", n, maxRulings)
	}
}
