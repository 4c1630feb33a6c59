package policies

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/psgrid/psg"
)

func TestDiff_ShowsWhatChangesAndWhy(t *testing.T) {
	before := bundleDir(t, one("deny contains sprintf(\"node %s is the first\", [input.node.name]) if input.node.name == \"n000\"\n"))
	after := bundleDir(t, one(`
deny contains sprintf("node %s is not the first", [input.node.name]) if input.node.name != "n000"

score contains ["idle", 2] if count(input.node.workloads) == 0

protect contains "it trains" if input.workload.kind == "training"
`))
	snapshot, err := json.Marshal(cluster([]*psg.Workload{gpuJob("training", 1)}, nil))
	if err != nil {
		t.Fatal(err)
	}
	difference, err := Diff(t.Context(), before, after, snapshot)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := difference.WriteText(&out); err != nil {
		t.Fatal(err)
	}
	want := `workload default/job-training/g
  + protected: policy p: it trains
  node n000
    - denied: policy p: node n000 is the first
    + allowed
  node n001
    - allowed
    + denied: policy p: node n001 is not the first
    + score 2: policy p: idle
2 of 2 verdicts differ
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	if same, err := Diff(t.Context(), after, after, snapshot); err != nil || same.Workloads != nil {
		t.Errorf("a bundle differs from itself: %+v, %v", same, err)
	}
}

func TestCheck_SaysHowEachRuleIsEvaluated(t *testing.T) {
	var out bytes.Buffer
	if err := (Config{}).Check(bundleDir(t, one(`
deny contains "odd" if to_number(input.node.attributes.n) > 1

score contains ["x", 1] if input.node.ready

reject contains "no" if input.workload.gpus > 8
`)), &out, true); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"  deny (line 3): T1, by closures", "  score (line 5): T1, by closures", "  reject (line 7): T0, OPA, once",
		"  not by columns: rule deny (line 3): line 3: to_number may fail\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	for _, dir := range libraries(t) {
		out.Reset()
		if err := (Config{}).Check(dir, &out, true); err != nil {
			t.Fatal(err)
		}
		if text := out.String(); strings.Contains(text, "T1") || strings.Contains(text, "pair by pair") || !strings.Contains(text, ": T2, by columns") {
			t.Errorf("%s is not decided by columns:\n%s", dir, text)
		}
	}
}
