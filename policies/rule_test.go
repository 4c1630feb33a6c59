package policies

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

// one makes a bundle of one policy from its rules.
func one(rules string) string {
	return "-- bundle.hcl --\nbundle \"b\" {}\npolicy \"p\" {\n  rego = \"p.rego\"\n}\n-- p.rego --\npackage p\n" + rules
}

func gpuJob(kind string, gpus int) *psg.Workload {
	return &psg.Workload{
		ID: psg.WorkloadID{Namespace: "default", Job: "job-" + kind, Group: "g"}, Version: 1, Type: psg.Batch, Count: 1,
		Tenant: "default", Kind: kind, Devices: []psg.DeviceAsk{{Name: "nvidia/gpu", Count: gpus, MilliGPU: 1000}},
	}
}

// cluster makes nodes n000, n001, …, of which node i runs running[i].
func cluster(running ...[]*psg.Workload) *psg.Snapshot {
	s := &psg.Snapshot{At: time.Unix(1000, 0)}
	known := map[psg.WorkloadID]bool{}
	var held []psg.Placement
	for i, workloads := range running {
		id := psg.NodeID(fmt.Sprintf("n%03d", i))
		s.Nodes = append(s.Nodes, psg.Node{ID: id, Version: 1, Name: string(id), Datacenter: fmt.Sprintf("dc%d", i%3), Ready: true})
		for j, w := range workloads {
			ask := psg.Ask{ID: psg.RequestID(fmt.Sprintf("%s-%03d", id, j)), Workload: w.ID, Alloc: "a"}
			held = append(held, psg.Placement{Ask: ask, Node: id, State: psg.Running, Request: w.Request})
			if !known[w.ID] {
				known[w.ID] = true
				s.Workloads = append(s.Workloads, *w)
			}
		}
	}
	s.Placements = psg.PlacementsOf(held...)
	s.Sort()
	return s
}

func rule(t testing.TB, set *Set, w *psg.Workload, s *psg.Snapshot) *psg.Ruling {
	t.Helper()
	ruling, err := set.Rule(t.Context(), w, s)
	if err != nil {
		t.Fatal(err)
	}
	return &ruling
}

func texts(reasons []psg.Reason) []string {
	var out []string
	for _, reason := range reasons {
		out = append(out, reason.Text)
	}
	return out
}

func TestRule_AppliesGPUColocation(t *testing.T) {
	set, err := Load("library/gpu_colocation")
	if err != nil {
		t.Fatal(err)
	}
	inference, training := gpuJob("inference", 1), gpuJob("training", 1)
	gold := gpuJob("inference", 1)
	gold.ID.Job, gold.Tier = "gold", "gold"
	view := cluster(
		[]*psg.Workload{inference, inference},
		[]*psg.Workload{inference, inference, inference},
		[]*psg.Workload{gold},
		[]*psg.Workload{gold, training},
	)
	next := gpuJob("training", 1)
	next.ID.Job = "next"
	ruling := rule(t, set, next, view)
	for row, want := range [][]string{
		nil,
		{"node n001 runs 3 inference workloads: from 3 on, only preemptible training may join"},
		nil,
		{"node n003 runs 1 inference workloads of tier gold beside 1 training workloads: at most 1 is allowed there"},
	} {
		if got := texts(ruling.Why(row)); !slices.Equal(got, want) {
			t.Errorf("row %d: %q", row, got)
		}
	}
	next.Preemptible = true
	next.Version++
	if denied := rule(t, set, next, view).Denied(4); !slices.Equal(slices.Collect(denied.All()), []int{3}) {
		t.Errorf("preemptible training is denied on rows %v", slices.Collect(denied.All()))
	}
	next.Devices = nil
	next.Version++
	if denials := rule(t, set, next, view).Denials; denials != nil {
		t.Errorf("training without GPU is denied: %v", denials)
	}
}

func TestRule_OrdersReasonsByPolicyThenText(t *testing.T) {
	set := mustLoad(t, Config{}, `
-- bundle.hcl --
bundle "b" {}
policy "z" {
  rego = "z.rego"
}
policy "a" {
  rego   = "a.rego"
  weight = 3
}
policy "watch" {
  rego = "z.rego"
  mode = "audit"
}
-- z.rego --
package z

deny contains reason if some reason in ["two", "one", input.node.name]

reject contains "no more" if input.workload.gpus > 1

protect contains "mine" if input.workload.gpus > 1

score contains ["never applied in audit", 1] if input.node.name == "n001"
-- a.rego --
package a

deny contains "also" if input.node.name == "n001"

score contains ["b", 0.0005] if input.node.name

score contains ["a", points] if some points in [0.5, 1.25]
`)
	ruling := rule(t, set, gpuJob("training", 2), cluster(nil, nil))
	if got := ruling.Rejected; !slices.Equal(got, []psg.Reason{{Source: "policy z", Text: "no more"}}) {
		t.Errorf("rejected for %v", got)
	}
	if got := ruling.Protected; !slices.Equal(got, []psg.Reason{{Source: "policy z", Text: "mine"}}) {
		t.Errorf("protected for %v", got)
	}
	want := []psg.Reason{
		{Source: "policy z", Text: "n001"}, {Source: "policy z", Text: "one"}, {Source: "policy z", Text: "two"},
		{Source: "policy a", Text: "also"},
	}
	if got := ruling.Why(1); !slices.Equal(got, want) {
		t.Errorf("denied for %v", got)
	}
	audit := []psg.Reason{{Source: "policy watch", Text: "no more"}}
	for _, reason := range want[:3] {
		audit = append(audit, psg.Reason{Source: "policy watch", Text: reason.Text})
	}
	if got := ruling.WhyAudit(1); !slices.Equal(got, audit) {
		t.Errorf("audit says %v", got)
	}
	if got := ruling.Denied(2).Count(); got != 2 {
		t.Errorf("%d nodes are denied", got)
	}
	if got := ruling.Points(2); !slices.Equal(got, []int64{5252, 6252}) {
		t.Errorf("points are %v", got)
	}
}

func TestRule_HonoursScope(t *testing.T) {
	set := mustLoad(t, Config{}, strings.Replace(one("deny contains \"x\" if input.node.name\n"), "\"p.rego\"\n}", "\"p.rego\"\n  scope {\n    kinds = [\"train*\"]\n  }\n}", 1))
	if rule(t, set, gpuJob("training", 1), cluster(nil)).Denials == nil {
		t.Error("not denied within the scope")
	}
	if rule(t, set, gpuJob("inference", 1), cluster(nil)).Denials != nil {
		t.Error("denied outside of the scope")
	}
}

func TestRule_DeniesWhateverGoesWrong(t *testing.T) {
	for name, c := range map[string]struct{ rules, want string }{
		"builtin error":   {"deny contains \"x\" if to_number(input.node.name) > 3\n", `evaluation error: p.rego:2: to_number: strconv.ParseFloat: parsing "n000": invalid syntax`},
		"division":        {"deny contains \"x\" if 1 / (input.workload.gpus - 1) > 3\n", `evaluation error: p.rego:2: div: divide by zero`},
		"error in score":  {"score contains [\"x\", 1 / (input.workload.gpus - 1)]\n", `evaluation error: p.rego:2: div: divide by zero`},
		"conflict":        {"limit := 1 if input.workload.gpus > 0\n\nlimit := 2 if input.node.name\n\ndeny contains \"x\" if limit > 3\n", `evaluation error: p.rego:4: rule data.p.limit produced conflicting values: 1 at p.rego:2 2 at p.rego:4`},
		"reason no text":  {"deny contains object.get(input.node.attributes, \"a\", 3)\n", `evaluation error: p.rego: deny gave 3, which is not a string`},
		"points no score": {"score contains object.get(input.node.attributes, \"a\", [1, 2, 3])\n", `evaluation error: p.rego: score gave [1, 2, 3], which is not [reason, points]`},
		"points no text":  {"score contains [\"x\", object.get(input.node.attributes, \"a\", \"many\")]\n", `evaluation error: p.rego: score gave ["x", "many"], which is not a string with a number`},
		"points too many": {"score contains [\"x\", 1e300]\n", `evaluation error: p.rego: score gave ["x", 1e300]: points are outside -1e9..1e9`},
		"points no end":   {"score contains [\"x\", 1e999]\n", `points are outside -1e9..1e9`},
	} {
		t.Run(name, func(t *testing.T) {
			ruling := rule(t, mustLoad(t, Config{}, one(c.rules)), gpuJob("training", 1), cluster(nil))
			if why := ruling.Why(0); len(why) != 1 || why[0].Source != "policy p" || !strings.Contains(why[0].Text, c.want) {
				t.Errorf("denied for %q, want %q", why, c.want)
			}
			if ruling.Scorings != nil {
				t.Errorf("scored in spite of it: %v", ruling.Scorings)
			}
		})
	}
}

func TestRule_RejectsAndProtectsWhenThatGoesWrong(t *testing.T) {
	ruling := rule(t, mustLoad(t, Config{}, one(`
reject contains "x" if to_number(input.workload.kind)

protect contains "y" if to_number(input.workload.job)
`)), gpuJob("training", 1), cluster(nil))
	if len(ruling.Rejected) != 1 || !strings.Contains(ruling.Rejected[0].Text, "p.rego:3: to_number") {
		t.Errorf("rejected for %v", ruling.Rejected)
	}
	if len(ruling.Protected) != 1 || !strings.Contains(ruling.Protected[0].Text, "p.rego:5: to_number") {
		t.Errorf("protected for %v", ruling.Protected)
	}
}

const endless = "deny contains \"x\" if count([1 | some a in numbers.range(1, 100000); some b in numbers.range(1, 100000); a == b + input.workload.priority]) < 0\n"

func TestRule_DeniesWhatTakesTooLongAndStopsAsking(t *testing.T) {
	set := mustLoad(t, Config{Timeout: time.Millisecond, Workers: 1}, one(endless))
	view := cluster(make([][]*psg.Workload, 40)...)
	began := time.Now()
	ruling := rule(t, set, gpuJob("training", 1), view)
	if spent := time.Since(began); spent > 10*time.Second {
		t.Errorf("it took %s", spent)
	}
	want := []string{"evaluation took longer than 1ms", "not evaluated: evaluation took longer than 1ms on 3 other nodes"}
	if got := []string{ruling.Denials[0].Reason.Text, ruling.Denials[1].Reason.Text}; !slices.Equal(got, want) {
		t.Errorf("denied for %q", got)
	}
	if held := set.memory.recall(gpuJob("training", 1)).column(0, set.policies[0], set.viewer.last, &set.budget).verdicts; !slices.Equal(held, make(verdicts, 40)) {
		t.Error("what took too long is remembered")
	}
	if asked := ruling.Denials[0].Rows.Count(); asked != 3 || ruling.Denied(40).Count() != 40 {
		t.Errorf("%d asked, %d denied", asked, ruling.Denied(40).Count())
	}
}

func TestRule_EndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	set := mustLoad(t, Config{}, one(endless))
	if _, err := set.Rule(ctx, gpuJob("training", 1), cluster(nil)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	if _, err := set.Rule(ctx, gpuJob("training", 1), cluster(nil, nil)); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestRule_IsolatesParams(t *testing.T) {
	set := mustLoad(t, Config{}, `
-- bundle.hcl --
bundle "b" {}
policy "three" {
  rego   = "p.rego"
  params = { limit = 3, only = "here" }
}
policy "four" {
  rego   = "p.rego"
  params = { limit = 4 }
}
-- p.rego --
package p

deny contains sprintf("more than %d", [data.params.limit]) if input.workload.gpus > data.params.limit

deny contains data.params.only if data.params.only
`)
	ruling := rule(t, set, gpuJob("training", 5), cluster(nil))
	want := []psg.Reason{{Source: "policy three", Text: "here"}, {Source: "policy three", Text: "more than 3"}, {Source: "policy four", Text: "more than 4"}}
	if got := ruling.Why(0); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

func TestRule_ReadsFedData(t *testing.T) {
	archive := func(onStale string) string {
		return `
-- bundle.hcl --
bundle "b" {}
policy "p" {
  rego = "p.rego"
}
data "http" "cmdb" {
  url      = "http://127.0.0.1/x"
  interval = "10s"
  on_stale = "` + onStale + `"
}
-- p.rego --
package p

deny contains "in the CMDB" if data.cmdb[input.node.name]
`
	}
	const none, stale, found = `data "cmdb" has had no answer yet`, `data "cmdb" is stale: no answer for more than 30s`, "in the CMDB"
	for mode, want := range map[string][3]string{"deny": {none, found, stale}, "ignore": {"", found, ""}, "keep": {none, found, found}} {
		t.Run(mode, func(t *testing.T) {
			set, w := mustLoad(t, Config{}, archive(mode)), gpuJob("training", 1)
			expect := func(step int, view *psg.Snapshot) {
				t.Helper()
				if got := strings.Join(texts(rule(t, set, w, view).Why(0)), ";"); got != want[step] {
					t.Errorf("step %d: %q, want %q", step, got, want[step])
				}
			}
			view := cluster(nil)
			expect(0, view)
			if err := set.Feed("cmdb", map[string]any{"n000": true}, view.At); err != nil {
				t.Fatal(err)
			}
			expect(1, view)
			later := cluster(nil)
			later.At = view.At.Add(31 * time.Second)
			expect(2, later)
		})
	}
	if err := mustLoad(t, Config{}, archive("keep")).Feed("cmbd", 1, time.Time{}); !errors.Is(err, psg.ErrUnknown) {
		t.Error(err)
	}
}

func TestRule_IsSafeForConcurrentUse(t *testing.T) {
	set := everythingSet(t)
	snapshots := []*psg.Snapshot{randomCluster(rand.New(rand.NewPCG(7, 8)), 20), randomCluster(rand.New(rand.NewPCG(9, 10)), 20)}
	w := gpuJob("training", 1)
	want := []*psg.Ruling{rule(t, everythingSet(t), w, snapshots[0]), rule(t, everythingSet(t), w, snapshots[1])}
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for range 3 {
				got, err := set.Rule(t.Context(), w, snapshots[i%2])
				if err != nil || !reflect.DeepEqual(said(&got, snapshots[i%2]), said(want[i%2], snapshots[i%2])) {
					t.Errorf("got %+v, %v", got, err)
				}
			}
		})
	}
	group.Wait()
}

func TestRuleAll_RulesInOrder(t *testing.T) {
	set, s := everythingSet(t), cluster(nil, nil)
	rulings, err := set.RuleAll(t.Context(), []*psg.Workload{gpuJob("b", 1), gpuJob("a", 1)}, s)
	if err != nil || len(rulings) != 2 || rulings[0].Workload.Job != "job-b" || rulings[1].Workload.Job != "job-a" {
		t.Errorf("%v, %v", rulings, err)
	}
}
