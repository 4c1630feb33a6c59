package controller

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/policies"
)

// ruled puts a bundle of its own in force.
func (w *world) ruled(bundle string) {
	w.Helper()
	dir := w.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "bundle.hcl"), []byte(bundle), 0o600); err != nil {
		w.Fatal(err)
	}
	rules, err := policies.Load(dir)
	if err != nil {
		w.Fatal(err)
	}
	w.policy = func() Policy { return rules }
	w.Wake()
}

// TestCycle_KeepsTheLimitsOfTheBundle is case P3: jobs a and b of one label, one
// per host across jobs, on three hosts; then another bundle comes into force.
func TestCycle_KeepsTheLimitsOfTheBundle(t *testing.T) {
	const limit = "bundle \"b\" {}\nlimit \"one_db_per_host\" {\n  match = { group = \"db\" }\n  per_node = %d\n  soft = %t\n}\n"
	known, asks := jobs{}, []psg.Ask{}
	for _, job := range []string{"a", "b"} {
		d := workload(job, "service", 64)
		d.Count, d.Labels = 2, map[string]string{"group": "db"}
		known[d.ID] = d
		for i := range 2 {
			asks = append(asks, psg.Ask{ID: psg.RequestID(fmt.Sprint(job, i)), Workload: d.ID, At: start, Hold: psg.MaxReservationHold})
		}
	}
	w := newWorld(t, tempLog(t), known)
	w.report(psg.NodeChanged{Node: testNode("n1")}, psg.NodeChanged{Node: testNode("n2")}, psg.NodeChanged{Node: testNode("n3")})
	w.ruled(fmt.Sprintf(limit, 1, false))
	w.place(0, asks...)
	if n := w.count(psg.Reserved); n != 3 {
		t.Fatalf("%d have room, want 3 on three hosts: %v", n, w.standing())
	}
	const why = "no node has room: limit one_db_per_host at most 1 per node: 1 run here on n1 (nearest of 3)"
	if status, _ := w.Ask("b1"); status.State != psg.Queued || status.Refusal.Summary != why {
		t.Errorf("b1 is %s: %+v", status.State, status.Refusal)
	}
	w.ruled(fmt.Sprintf(limit, 1, true))
	w.cycle()
	status, _ := w.Ask("b1")
	if status.State != psg.Reserved {
		t.Fatalf("where the limit is soft b1 is %s: %+v", status.State, status.Refusal)
	}
	doubled := false
	for _, part := range status.Placement.Score {
		doubled = doubled || part.Name == "limit" && part.Points < 0
	}
	if !doubled {
		t.Errorf("the doubling is not explained: %v", status.Placement.Score)
	}
	w.checkLog()
}

// TestCycle_KeepsALimitOfTheWholeCluster is case P4 in small.
func TestCycle_KeepsALimitOfTheWholeCluster(t *testing.T) {
	known, asks := jobs{}, []psg.Ask{}
	for i := range 50 {
		d := workload(fmt.Sprintf("mirror%02d", i), "service", 16)
		d.Labels = map[string]string{"role": "mirror"}
		known[d.ID] = d
		asks = append(asks, psg.Ask{ID: psg.RequestID(d.ID.Job), Workload: d.ID, At: start, Hold: psg.MaxReservationHold})
	}
	w := newWorld(t, tempLog(t), known)
	for i := range 10 {
		w.report(psg.NodeChanged{Node: testNode(psg.NodeID(fmt.Sprint("n", i)))})
	}
	w.ruled("bundle \"b\" {}\nlimit \"mirrors\" {\n  match = { role = \"mirror\" }\n  per_node = 5\n  total = 20\n}\n")
	w.place(0, asks...)
	if placed, queued := w.count(psg.Reserved), w.count(psg.Queued); placed != 20 || queued != 30 {
		t.Errorf("%d have room and %d wait, want 20 and 30", placed, queued)
	}
	for _, status := range w.Asks() {
		if status.State == psg.Queued && status.Refusal.Summary != "limit mirrors: at most 20 in the cluster" {
			t.Fatalf("%s: %s", status.Ask.ID, status.Refusal.Summary)
		}
	}
	w.checkLog()
}
