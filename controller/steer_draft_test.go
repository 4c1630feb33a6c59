package controller

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/policies"
)

// ruledBy puts one policy in force.
func (w *world) ruledBy(rego string) {
	w.Helper()
	dir := w.TempDir()
	for name, content := range map[string]string{
		"bundle.hcl": "bundle \"b\" {}\npolicy \"p\" {\n  rego = \"p.rego\"\n}\n",
		"p.rego":     "package p\n\n" + rego,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			w.Fatal(err)
		}
	}
	rules, err := policies.Load(dir)
	if err != nil {
		w.Fatal(err)
	}
	w.policy = always(rules)
	w.Wake()
}

const denyRestrictedOnN1 = `deny contains "restricted work may not be on n1" if {
	input.workload.labels.restricted == "true"
	input.node.name == "n1"
}
`

func TestPlan_IsByTheDefinitionThatIsToBeRegistered(t *testing.T) {
	web := workload("web", "service", 512)
	w := newWorld(t, tempLog(t), jobs{web.ID: web})
	w.ruledBy(denyRestrictedOnN1)
	w.report(psg.NodeChanged{Node: testNode("n1")}, psg.NodeChanged{Node: testNode("n2")}, psg.WorkloadChanged{Workload: web})
	if order := w.place(0, gate(web, "w1", "n1"))[0]; order.Kind != psg.Grant {
		t.Fatalf("%+v, want a grant", order)
	}
	next := web
	next.Count, next.Labels = 3, map[string]string{"restricted": "true"}
	foreseen, err := w.Preview(t.Context(), []psg.Workload{next})
	if err != nil || foreseen[0].Hint["n1"] != 1 || foreseen[0].Hint["n2"] != 2 {
		t.Errorf("foreseen %+v, %v; want what runs on n1, and the others on n2", foreseen, err)
	}
	planned, err := w.planned("plan/1", next)
	if err != nil || planned[0].Hint["n1"] != 1 || planned[0].Hint["n2"] != 2 {
		t.Errorf("planned %+v, %v; want what runs on n1, and the others on n2", planned, err)
	}
	if err := w.Abandon(t.Context(), "plan/1", []psg.WorkloadID{web.ID}); err != nil {
		t.Fatal(err)
	}
	w.cycle()
	if known := w.Snapshot().Workload(web.ID); known == nil || known.Count != 1 || known.Version != web.Version {
		t.Errorf("abandoned, it is known as %+v", known)
	}
}
