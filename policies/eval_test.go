package policies

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/psgrid/psg"
)

func TestEval_SaysWhyOnEachNode(t *testing.T) {
	inference := gpuJob("inference", 1)
	view := cluster([]*psg.Workload{inference, inference, inference}, nil)
	view.Nodes[0], view.Nodes[1] = view.Nodes[1], view.Nodes[0] // not sorted
	workload, err := json.Marshal(gpuJob("training", 1))
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := json.Marshal(view)
	if err != nil {
		t.Fatal(err)
	}
	report, err := Config{}.Eval(t.Context(), "library/gpu_colocation", workload, snapshot)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := report.WriteText(&out); err != nil {
		t.Fatal(err)
	}
	want := `workload default/job-training/g
node n000: denied, score 0
  denied: policy gpu_colocation: node n000 runs 3 inference workloads: from 3 on, only preemptible training may join
node n001: allowed, score 0
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestEval_WritesScoresAndAudit(t *testing.T) {
	dir := bundleDir(t, `
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

score contains ["cheap", 2.5]

score contains ["far", -4]

reject contains "never" if input.workload.gpus > 0

protect contains "always" if input.workload.gpus > 0
-- q.rego --
package q

deny contains "perhaps"
`)
	report, err := Config{}.Eval(t.Context(), dir, []byte(`{"id": {"job": "j"}, "devices": [{"name": "gpu", "count": 1, "milli_gpu": 1000}]}`), []byte(`{"nodes": [{"id": "n"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := report.WriteText(&out); err != nil {
		t.Fatal(err)
	}
	want := `workload /j/
  rejected: policy p: never
  protected: policy p: always
node n: allowed, score -1.500
  score 2.500: policy p: cheap
  score -4: policy p: far
  audit, would deny: policy q: perhaps
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestEval_RefusesWhatItCannotRead(t *testing.T) {
	for name, c := range map[string]struct{ workload, snapshot, want string }{
		"workload":  {`{"knd": "x"}`, `{}`, `decode workload: invalid: json: unknown field "knd"`},
		"trailing":  {`{} {}`, `{}`, `decode workload: invalid: something follows the JSON value`},
		"brace":     {`{} }`, `{}`, `decode workload: invalid: something follows the JSON value`},
		"null":      {` null `, `{}`, `decode workload: invalid: it is null`},
		"long":      {`{}`, `{"at": "` + strings.Repeat("a", 1<<20) + `"}`, `decode snapshot: invalid: parsing time "aaaa`},
		"workloads": {`{}`, `{"workloads": [{"id": {"job": "j"}}, {"id": {"job": "k"}}, {"id": {"job": "j"}}]}`, `snapshot: invalid: workload "/j/" is there twice`},
		"snapshot":  {`{}`, `{"nodes": {}}`, `decode snapshot: invalid: json: cannot unmarshal object`},
		"duplicate": {`{}`, `{"nodes": [{"id": "n"}, {"id": "n"}]}`, `snapshot: invalid: node "n" is there twice`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Config{}.Eval(t.Context(), "library/gpu_colocation", []byte(c.workload), []byte(c.snapshot))
			if !errors.Is(err, psg.ErrInvalid) || len(err.Error()) > 400 || !strings.Contains(fmt.Sprint(err), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func TestPoints_LoseNothing(t *testing.T) {
	for milli, want := range map[int64]string{0: "0", 1: "0.001", -1: "-0.001", 1500: "1.500", -2000: "-2"} {
		if got := points(milli); got != want {
			t.Errorf("%d is %s, want %s", milli, got, want)
		}
	}
}
