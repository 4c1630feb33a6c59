package controller

import (
	"reflect"
	"testing"

	"github.com/psgrid/psg"
)

func TestPreview_SaysWhatAPlanWouldAndChangesNothing(t *testing.T) {
	web := workload("web", "service", 2048)
	web.Count = 5
	w := newWorld(t, tempLog(t), jobs{})
	w.report(psg.NodeChanged{Node: testNode("n1")}, psg.NodeChanged{Node: testNode("n2")})
	w.cycle()
	before, _, _ := w.Position()
	foreseen, err := w.Preview(t.Context(), []psg.Workload{web})
	if err != nil {
		t.Fatal(err)
	}
	if v := foreseen[0]; v.Hint["n1"] != 2 || v.Hint["n2"] != 2 || len(v.Waiting) != 1 || v.Waiting[0].State != psg.Queued || v.Waiting[0].Summary == "" {
		t.Errorf("verdict %+v, want two on each node, and one that waits with its reason", v)
	}
	w.cycle()
	if after, _, _ := w.Position(); after != before || len(w.Asks()) > 0 || len(w.Snapshot().Workloads) > 0 {
		t.Errorf("the ledger went from %d to %d, with %d asks", before, after, len(w.Asks()))
	}
	planned, err := w.planned("plan/1", web)
	if err != nil || !reflect.DeepEqual(planned[0].Hint, foreseen[0].Hint) {
		t.Errorf("planned %+v, %v; foreseen %+v", planned, err, foreseen)
	}
	again, err := w.Preview(t.Context(), []psg.Workload{web})
	if err != nil || !reflect.DeepEqual(again[0].Hint, planned[0].Hint) {
		t.Errorf("with all of it planned: %+v, %v", again, err)
	}
}

func TestPreview_KeepsToLimitsAndToNodesWhereWorkStarts(t *testing.T) {
	db := workload("db", "service", 64)
	db.Count, db.Labels = 3, map[string]string{"group": "db"}
	w := newWorld(t, tempLog(t), nil)
	w.report(psg.NodeChanged{Node: testNode("n1")}, psg.NodeChanged{Node: testNode("n2")})
	w.ruled("bundle \"b\" {}\nlimit \"one\" {\n  match = { group = \"db\" }\n  per_node = 1\n}\n")
	w.cycle()
	foreseen, err := w.Preview(t.Context(), []psg.Workload{db})
	if err != nil || len(foreseen[0].Waiting) != 1 || foreseen[0].Hint["n1"] != 1 || foreseen[0].Hint["n2"] != 1 {
		t.Errorf("%+v, %v; want one on each node", foreseen, err)
	}
	w.shun("n2")
	foreseen, err = w.Preview(t.Context(), []psg.Workload{db})
	if err != nil || len(foreseen[0].Waiting) != 2 || foreseen[0].Hint["n2"] != 0 {
		t.Errorf("%+v, %v; want nothing on n2", foreseen, err)
	}
}
