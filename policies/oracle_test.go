package policies

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage/inmem"

	"github.com/psgrid/psg"
)

// everything reads all that a policy can and errs on some nodes.
const everything = `
-- bundle.hcl --
bundle "b" {}
policy "colocation" {
  rego   = "colocation.rego"
  params = { max_inference = 2, protected = "gold" }
}
policy "everything" {
  rego   = "everything.rego"
  weight = 2
}
policy "static" {
  rego = "static.rego"
}
aggregate "inference" {
  match = { kind = "inf*" }
}
-- everything.rego --
package everything

deny contains sprintf("%d of %d at %d", [input.node.agg.inference, data.cluster.placed, input.now]) if input.node.agg.inference > 1

deny contains "not even" if to_number(input.node.attributes.number) % 2 == 1

score contains ["free", input.node.free.cpu_mhz / 7]

score contains ["steal", 0 - input.node.telemetry.steal.p95]

score contains [domain, n] if some domain, n in data.cluster.services[input.workload.service].domains
-- static.rego --
package static

deny contains sprintf("rack %s", [input.node.attributes.rack]) if input.node.attributes.rack in {"r1", input.workload.labels.rack}
`

func everythingSet(t testing.TB) *Set { return everythingIn(t, Columnar) }

// everythingIn bounds the tiers.
func everythingIn(t testing.TB, highest Tier) *Set {
	t.Helper()
	dir := bundleDir(t, everything)
	policy := readFile(t, "library/gpu_colocation/policy.rego")
	writeFiles(t, dir, "-- colocation.rego --\n"+policy)
	// A loaded machine must not turn a stall into a denial here.
	set, err := Config{Timeout: time.Minute, MaxTier: &highest}.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// randomCluster has missing and wrong attributes, too.
func randomCluster(r *rand.Rand, nodes int) *psg.Snapshot {
	kinds := []*psg.Workload{gpuJob("inference", 1), gpuJob("training", 1), gpuJob("batch", 0)}
	gold := gpuJob("inference", 1)
	gold.ID.Job, gold.Tier = "gold", "gold"
	kinds = append(kinds, gold)
	running := make([][]*psg.Workload, nodes)
	for i := range running {
		for range r.IntN(5) {
			running[i] = append(running[i], kinds[r.IntN(len(kinds))])
		}
	}
	s := cluster(running...)
	for i := range s.Nodes {
		randomNode(r, &s.Nodes[i])
	}
	return s
}

func randomNode(r *rand.Rand, n *psg.Node) {
	n.Version = r.Uint64()
	n.Attributes = map[string]string{"rack": fmt.Sprintf("r%d", r.IntN(4))}
	if r.IntN(2) == 0 {
		n.Attributes["number"] = []string{"1", "2", "x"}[r.IntN(3)]
	}
	n.Capacity[psg.CPU] = r.Int64N(10_000)
	if r.IntN(2) == 0 {
		n.Telemetry = &psg.Telemetry{At: time.Unix(1, 0), Metrics: map[string]psg.Stats{"steal": {P95: r.Float64(), Max: math.NaN()}}}
	}
}

// expected rules on each pair with a fresh rego.New, from JSON text.
func expected(t testing.TB, set *Set, w *psg.Workload, s *psg.Snapshot) (denied [][]string, points []float64) {
	t.Helper()
	residents := holdingOf(s).residents
	denied, points = make([][]string, len(s.Nodes)), make([]float64, len(s.Nodes))
	for row := range s.Nodes {
		input := parseJSON(t, ast.ObjectTerm(field("workload", workloadDocument(w)), field("now", integer(s.At.UnixNano())),
			field("node", nodeDocument(&s.Nodes[row], residents[row], set.bundle.Aggregates))).String())
		for _, p := range set.policies {
			data := map[string]any{"params": p.spec.Params, "cluster": parseJSON(t, clusterDocument(s, residents).String())}
			result, err := rego.New(
				rego.Query(fmt.Sprintf("deny := object.get(%[1]s, \"deny\", []); score := object.get(%[1]s, \"score\", [])", p.pkg)),
				rego.Module("x.rego", readFile(t, inBundle(p.dir, p.spec.Rego))),
				rego.Store(inmem.NewFromObject(data)), rego.Input(input), rego.StrictBuiltinErrors(true)).Eval(t.Context())
			if err != nil {
				denied[row] = append(denied[row], "evaluation error")
				continue
			}
			for _, reason := range result[0].Bindings["deny"].([]any) {
				denied[row] = append(denied[row], reason.(string))
			}
			for _, pair := range result[0].Bindings["score"].([]any) {
				n, _ := pair.([]any)[1].(json.Number).Float64()
				points[row] += n * float64(p.spec.Weight)
			}
		}
	}
	return denied, points
}

func parseJSON(t testing.TB, text string) any {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

func TestRule_EqualsOPAOnEveryPair(t *testing.T) {
	set := everythingSet(t)
	r := rand.New(rand.NewPCG(1, 2))
	w := gpuJob("training", 1)
	w.Labels = map[string]string{"rack": "r2"}
	for range 4 {
		s := randomCluster(r, 30)
		ruling := rule(t, set, w, s)
		denied, points := expected(t, set, w, s)
		milli := ruling.Points(len(s.Nodes))
		for row := range s.Nodes {
			got := texts(ruling.Why(row))
			for i, text := range got {
				if strings.HasPrefix(text, "evaluation error") {
					got[i] = "evaluation error"
				}
			}
			if !slices.Equal(got, denied[row]) {
				t.Errorf("row %d denied for %q, OPA says %q", row, got, denied[row])
			}
			// Each of at most six scores is rounded by at most half a milli-point.
			if diff := math.Abs(float64(milli[row]) - points[row]*1000); diff > 3.5 {
				t.Errorf("row %d has %d milli-points, OPA says %v points", row, milli[row], points[row])
			}
		}
	}
}

// said is all that a ruling says, row by row.
func said(r *psg.Ruling, s *psg.Snapshot) []any {
	out := []any{r.Workload, r.Rejected, r.Protected, r.Points(len(s.Nodes)), r.Denied(len(s.Nodes))}
	for row := range s.Nodes {
		out = append(out, r.Why(row), r.WhyAudit(row))
	}
	return out
}

// A set that has ruled on a chain of snapshots answers as one that has not.
func TestRule_RemembersNothingThatChanged(t *testing.T) {
	set := everythingSet(t)
	r := rand.New(rand.NewPCG(3, 4))
	s := randomCluster(r, 40)
	w := gpuJob("training", 1)
	w.Labels = map[string]string{"rack": "r2"}
	for step := range 40 {
		next := &psg.Snapshot{At: s.At, Nodes: slices.Clone(s.Nodes), Workloads: slices.Clone(s.Workloads), Placements: s.Placements}
		switch step % 8 {
		case 0:
			randomNode(r, &next.Nodes[r.IntN(len(next.Nodes))])
		case 1:
			next.Nodes[3].Telemetry = &psg.Telemetry{Metrics: map[string]psg.Stats{"steal": {P95: r.Float64()}}}
		case 2:
			next.Placements = nudged(next.Placements, 1, nil)
		case 3:
			next.Nodes = slices.Delete(next.Nodes, 2, 3)
		case 4:
			next.At = next.At.Add(time.Second)
		case 5:
			next.Workloads[0].Version++
			next.Workloads[0].Kind = []string{"inference", "training"}[r.IntN(2)]
		case 6:
			next.Placements = nudged(next.Placements, 0, func(p *psg.Placement) { p.State = psg.Released })
		case 7:
			changed := *w
			w = &changed
			w.Version++
			w.Labels = map[string]string{"rack": fmt.Sprintf("r%d", r.IntN(4))}
		}
		got, want := rule(t, set, w, next), rule(t, everythingSet(t), w, next)
		if got, want := said(got, next), said(want, next); !reflect.DeepEqual(got, want) {
			t.Fatalf("step %d: got  %+v\nwant %+v", step, got, want)
		}
		s = next
	}
}

// nudged are placements in which the i-th has changed; without it for nil.
func nudged(placements psg.Placements, i int, change func(*psg.Placement)) psg.Placements {
	list := slices.Collect(placements.All())
	return placements.Renew([]psg.RequestID{list[i].Ask.ID}, func(psg.RequestID) *psg.Placement {
		if change == nil {
			return nil
		}
		next := *list[i]
		change(&next)
		return &next
	})
}

// withMore are placements and more.
func withMore(placements psg.Placements, more ...psg.Placement) psg.Placements {
	ids := make([]psg.RequestID, len(more))
	for i := range more {
		ids[i] = more[i].Ask.ID
	}
	return placements.Renew(ids, psg.PlacementsOf(more...).Of)
}

func TestRule_EvaluatesOnlyWhatChanged(t *testing.T) {
	set := everythingIn(t, Compiled)
	s := randomCluster(rand.New(rand.NewPCG(5, 6)), 20)
	w := gpuJob("training", 1)
	rule(t, set, w, s)
	next := *s
	next.Nodes = slices.Clone(s.Nodes)
	next.At = s.At.Add(time.Second)
	next.Nodes[7].Version++
	next.Nodes[7].Attributes = map[string]string{"rack": "r1"}
	v := set.viewer.of(&next, set.fed.Load())
	static, timed := set.policies[2], set.policies[1]
	known := set.memory.recall(w).column(2, static, v, &set.budget).verdicts
	for row, verdict := range known {
		if (verdict == nil) != (row == 7) {
			t.Errorf("row %d remembered: %t", row, verdict != nil)
		}
	}
	if slices.ContainsFunc(set.memory.recall(w).column(1, timed, v, &set.budget).verdicts, func(v *verdict) bool { return v != nil }) {
		t.Error("verdicts of a policy that reads the time are remembered")
	}
}
