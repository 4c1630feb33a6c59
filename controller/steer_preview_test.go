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
