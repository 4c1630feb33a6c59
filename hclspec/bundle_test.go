package hclspec

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

const fullBundle = `
variable "limit" {
  type    = number
  default = 3
}
variable "zones" {
  default = ["eu", "us"]
}
bundle "production" {
  version = "1.4.0"
}
policy "gpu_colocation" {
  rego   = "gpu_colocation.rego"
  mode   = "enforce"
  weight = 2
  params = {
    max_inference = var.limit + 1
    zones         = concat(var.zones, [upper("ap")])
    nested        = { ratio = 0.1, on = true, none = null }
  }
  scope {
    namespaces = ["ml-*"]
    tiers      = ["gold", "silver"]
  }
}
policy "watch" {
  rego = "sub/watch.rego"
  mode = "audit"
}
aggregate "inference" {
  match = { kind = "inference" }
}
aggregate "gold" {
  match = { tier = "gold", labels = { app = "web*" }, preemptible = false }
}
tenant "search" {
  weight    = 4
  guarantee = { cpu = 400000, gpu = 8000 }
}
data "prometheus" "p99" {
  address  = "http://127.0.0.1:9090"
  query    = "up"
  interval = "30s"
  key      = "node"
  on_stale = "ignore"
}
data "http" "cmdb" {
  url      = "https://cmdb.example/windows.json"
  interval = "2s"
  on_stale = "deny"
}
`

func TestParseBundle_ReadsEverything(t *testing.T) {
	bundle, err := ParseBundle("bundle.hcl", []byte(fullBundle))
	if err != nil {
		t.Fatal(err)
	}
	yes := false
	want := Bundle{
		Name: "production", Version: "1.4.0",
		Policies: []Policy{{
			Name: "gpu_colocation", Rego: "gpu_colocation.rego", Mode: Enforce, Weight: 2,
			Params: map[string]any{
				"max_inference": json.Number("4"), "zones": []any{"eu", "us", "AP"},
				"nested": map[string]any{"ratio": json.Number("0.1"), "on": true, "none": nil},
			},
			Scope: Scope{Namespaces: []string{"ml-*"}, Tiers: []string{"gold", "silver"}},
			Pos:   Position{"bundle.hcl", 12, 1},
		}, {
			Name: "watch", Rego: "sub/watch.rego", Mode: Audit, Weight: 1, Params: map[string]any{}, Pos: Position{"bundle.hcl", 26, 1},
		}},
		Aggregates: []Aggregate{
			{Name: "inference", Match: Match{Text: map[MatchField]string{MatchKind: "inference"}}, Pos: Position{"bundle.hcl", 30, 1}},
			{Name: "gold", Match: Match{Text: map[MatchField]string{MatchTier: "gold"}, Labels: map[string]string{"app": "web*"}, Preemptible: &yes}, Pos: Position{"bundle.hcl", 33, 1}},
		},
		Tenants: []psg.Tenant{{ID: "search", Weight: 4, Guarantee: map[string]int64{"cpu_mhz": 400000, "milli_gpu": 8000}}},
		Sources: []Source{
			{Kind: "prometheus", Name: "p99", URL: "http://127.0.0.1:9090", Query: "up", Key: "node", Interval: 30 * time.Second, Timeout: 5 * time.Second, StaleAfter: 90 * time.Second, OnStale: StaleIgnore, Pos: Position{"bundle.hcl", 40, 1}},
			{Kind: "http", Name: "cmdb", URL: "https://cmdb.example/windows.json", Interval: 2 * time.Second, Timeout: 2 * time.Second, StaleAfter: 6 * time.Second, OnStale: StaleDeny, Pos: Position{"bundle.hcl", 47, 1}},
		},
	}
	if !reflect.DeepEqual(bundle, want) {
		t.Errorf("got  %+v\nwant %+v", bundle, want)
	}
}

func TestParseBundle_OverridesVariables(t *testing.T) {
	bundle, err := ParseBundle("bundle.hcl", []byte(fullBundle), Variable{"limit", "10"}, Variable{"zones", `["x"]`})
	if err != nil {
		t.Fatal(err)
	}
	params := bundle.Policies[0].Params
	if params["max_inference"] != json.Number("11") || !reflect.DeepEqual(params["zones"], []any{"x", "AP"}) {
		t.Errorf("params are %v", params)
	}
}

func TestParseBundle_TakesStringOverridesLiterally(t *testing.T) {
	src := `variable "v" {
  default = ""
}
bundle "b" {
  version = var.v
}`
	bundle, err := ParseBundle("bundle.hcl", []byte(src), Variable{"v", `1.0 "${x}`})
	if err != nil || bundle.Version != `1.0 "${x}` {
		t.Errorf("got %q, %v", bundle.Version, err)
	}
}

// Each case is appended to a good head of one line, so its own lines count from 2.
var wrongBundles = []struct{ name, src, want string }{
	{"argument", "policy \"p\" {\n  rego = \"p.rego\"\n  mod = \"audit\"\n}", `b.hcl:4:3: Unsupported argument: An argument named "mod" is not expected here. Did you mean "mode"?`},
	{"block", "polcy \"p\" {\n}", `b.hcl:2:1: Unsupported block type: Blocks of type "polcy" are not expected here. Did you mean "policy"?`},
	{"mode", "policy \"p\" {\n  rego = \"p.rego\"\n  mode = \"adit\"\n}", `b.hcl:4:10: mode is "adit", but must be one of "enforce", "audit"; did you mean "audit"?`},
	{"scope", "policy \"p\" {\n  rego = \"p.rego\"\n  scope {\n    namespace = [\"a\"]\n  }\n}", `b.hcl:5:5: Unsupported argument: An argument named "namespace" is not expected here. Did you mean "namespaces"?`},
	{"no rego", "policy \"p\" {\n}", `b.hcl:2:12: Missing required argument: The argument "rego" is required, but no definition was found`},
	{"outside", "policy \"p\" {\n  rego = \"../p.rego\"\n}", `b.hcl:3:10: policy "p": rego must be the path of a .rego file within the bundle, not a test: got "../p.rego"`},
	{"test", "policy \"p\" {\n  rego = \"p_test.rego\"\n}", `b.hcl:3:10: policy "p": rego must be the path`},
	{"policy twice", "policy \"p\" {\n  rego = \"p.rego\"\n}\npolicy \"p\" {\n  rego = \"q.rego\"\n}", `b.hcl:5:1: policy "p" is declared twice: first at b.hcl:2:1`},
	{"weight type", "policy \"p\" {\n  rego = \"p.rego\"\n  weight = \"heavy\"\n}", `b.hcl:4:13: Unsuitable value type: Unsuitable value: a number is required`},
	{"weight range", "policy \"p\" {\n  rego = \"p.rego\"\n  weight = -1\n}", `b.hcl:4:12: policy "p": weight -1 is outside 0..1000`},
	{"params type", "policy \"p\" {\n  rego = \"p.rego\"\n  params = [1]\n}", `b.hcl:4:12: policy "p": params must be an object such as { limit = 3 }, not tuple`},
	{"policy name", "policy \"a b\" {\n  rego = \"p.rego\"\n}", `b.hcl:2:8: policy name "a b": letters, digits, _, - and . only`},
	{"function", "tenant \"t\" {\n  weight = mx(1, 2)\n}", `b.hcl:3:12: there is no function "mx"; did you mean "max"?`},
	{"variable", "variable \"limit\" {\n  default = 1\n}\ntenant \"t\" {\n  weight = var.limt\n}", `b.hcl:6:15: Unsupported attribute: This object does not have an attribute named "limt"; did you mean "limit"?`},
	{"no default", "variable \"limit\" {\n}", `b.hcl:2:1: variable "limit" has no default and was given no value`},
	{"default type", "variable \"limit\" {\n  type = number\n  default = \"x\"\n}", `b.hcl:2:1: variable "limit": a number is required`},
	{"variable twice", "variable \"v\" {\n  default = 1\n}\nvariable \"v\" {\n  default = 2\n}", `b.hcl:5:1: variable "v" is declared twice: first at b.hcl:2:1`},
	{"aggregate name", "aggregate \"a-b\" {\n  match = { kind = \"x\" }\n}", `b.hcl:2:11: aggregate name "a-b": Rego reads it as input.node.agg.NAME`},
	{"aggregate field", "aggregate \"a\" {\n  match = { knd = \"x\" }\n}", `b.hcl:3:11: match has no "knd"; it knows namespace, job, group, type, tenant, tier, kind, labels, preemptible; did you mean "kind"?`},
	{"aggregate value", "aggregate \"a\" {\n  match = { kind = 3 }\n}", `b.hcl:3:11: match.kind must be a string`},
	{"aggregate twice", "aggregate \"a\" {\n  match = {}\n}\naggregate \"a\" {\n  match = {}\n}", `b.hcl:5:1: aggregate "a" is declared twice: first at b.hcl:2:1`},
	{"guarantee", "tenant \"t\" {\n  guarantee = { memry = 1 }\n}", `b.hcl:3:15: tenant "t": guarantee of unknown resource "memry"; did you mean "memory"?`},
	{"guarantee twice", "tenant \"t\" {\n  guarantee = { cpu = 1, cpu_mhz = 2 }\n}", `b.hcl:3:15: tenant "t": cpu_mhz is guaranteed twice, under its short and its full name`},
	{"guarantee negative", "tenant \"t\" {\n  guarantee = { cpu = -1 }\n}", `b.hcl:3:15: tenant "t": guarantee cpu = -1 is outside`},
	{"tenant weight", "tenant \"t\" {\n  weight = 0\n}", `b.hcl:3:12: tenant "t": weight 0 is outside`},
	{"data kind", "data \"promtheus\" \"p\" {\n  interval = \"1s\"\n}", `b.hcl:2:6: kind of data is "promtheus", but must be one of "prometheus", "http"; did you mean "prometheus"?`},
	{"data address", "data \"prometheus\" \"h\" {\n  address = \"http://127.0.0.1:9090?token=x\"\n  query = \"up\"\n  key = \"node\"\n  interval = \"1s\"\n}", `b.hcl:3:13: data "prometheus" "h": address must end with its path, and have no query`},
	{"data url", "data \"http\" \"h\" {\n  url = \"cmdb\"\n  interval = \"1s\"\n}", `b.hcl:3:9: data "http" "h": url "cmdb" is not an http or https URL`},
	{"data argument", "data \"http\" \"h\" {\n  url = \"http://x\"\n  interval = \"1s\"\n  query = \"up\"\n}", `b.hcl:5:11: data "http" "h": http sources have no query`},
	{"data reserved", "data \"http\" \"cluster\" {\n  url = \"http://x\"\n  interval = \"1s\"\n}", `b.hcl:2:13: data name "cluster": Rego reads it as data.NAME`},
	{"data interval", "data \"http\" \"h\" {\n  url = \"http://x\"\n  interval = \"soon\"\n}", `b.hcl:4:14: interval "soon" is not a duration between "1s" and "24h"`},
	{"data stale", "data \"http\" \"h\" {\n  url = \"http://x\"\n  interval = \"1s\"\n  on_stale = \"keeep\"\n}", `b.hcl:5:14: on_stale is "keeep", but must be one of "deny", "ignore", "keep"; did you mean "keep"?`},
	{"data twice", "data \"http\" \"h\" {\n  url = \"http://x\"\n  interval = \"1s\"\n}\ndata \"prometheus\" \"h\" {\n  address = \"http://x\"\n  query = \"up\"\n  key = \"n\"\n  interval = \"1s\"\n}", `b.hcl:6:1: data "h" is declared twice: first at b.hcl:2:1`},
	{"data missing", "data \"prometheus\" \"p\" {\n  address = \"http://x\"\n  key = \"n\"\n  interval = \"1s\"\n}", `b.hcl:2:1: data "prometheus" "p": query is missing`},
	{"second bundle", "bundle \"c\" {\n}", `b.hcl:2:1: Duplicate bundle block`},
	{"syntax", "policy \"p\" {", `b.hcl:2:12: Unclosed configuration block`},
	{"deep", "tenant \"t\" {\n  weight = " + strings.Repeat("(", 100_000), `b.hcl:1:1: line 3: nested more than 64 deep`},
	{"signs", "tenant \"t\" {\n  weight = " + strings.Repeat("-", 100_000), `b.hcl:1:1: line 3: nested more than 64 deep`},
	{"size", strings.Repeat("#\n", 200_000), `bytes are more than the 262144 allowed`},
}

func TestParseBundle_SaysWhatIsWrongAndWhere(t *testing.T) {
	for _, c := range wrongBundles {
		t.Run(c.name, func(t *testing.T) {
			bundle, err := ParseBundle("b.hcl", []byte("bundle \"b\" {}\n"+c.src))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
			if !reflect.DeepEqual(bundle, Bundle{}) {
				t.Errorf("half applied: %+v", bundle)
			}
		})
	}
}

func TestParseBundle_ReportsInTheOrderOfTheFile(t *testing.T) {
	src := "bundle \"b\" {}\npolicy \"p\" {\n  rego = 1 + []\n  mode = [] + 2\n  weight = nope()\n}\n"
	_, err := ParseBundle("b.hcl", []byte(src))
	var errs BundleErrors
	if !errors.As(err, &errs) || len(errs) != 3 || errs[0].Pos.Line != 3 || errs[1].Pos.Line != 4 || errs[2].Pos.Line != 5 {
		t.Error(err)
	}
}

func TestParseBundle_NeedsAHead(t *testing.T) {
	_, err := ParseBundle("b.hcl", nil)
	if err == nil || !strings.Contains(err.Error(), "b.hcl:1:1: no bundle block") {
		t.Error(err)
	}
}

func TestParseBundle_RefusesUndeclaredOverride(t *testing.T) {
	_, err := ParseBundle("b.hcl", []byte(fullBundle), Variable{"limt", "3"})
	if err == nil || !strings.Contains(err.Error(), `variable "limt" is given a value but not declared; did you mean "limit"?`) {
		t.Error(err)
	}
}

func TestReadBundle_NamesTheRegoFileThatIsMissing(t *testing.T) {
	files := map[string][]byte{
		"bundle.hcl": []byte("bundle \"b\" {}\npolicy \"p\" {\n  rego = \"gpus.rego\"\n}\n"),
		"gpu.rego":   []byte("package gpu\n"),
	}
	_, err := ReadBundle("dir", files)
	want := filepath.Join("dir", "bundle.hcl") + `:2:1: policy "p": no file "gpus.rego" in the bundle; did you mean "gpu.rego"?`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	var errs BundleErrors
	if !errors.As(err, &errs) || errs[0].Pos.Line != 2 {
		t.Errorf("not a BundleErrors: %v", err)
	}
	files["gpus.rego"] = []byte("package gpu\n")
	if _, err := ReadBundle("dir", files); err != nil {
		t.Error(err)
	}
	if _, err := ReadBundle("dir", nil); err == nil || err.Error() != "open bundle: there is no bundle.hcl in dir" {
		t.Error(err)
	}
}

func TestScope_CoversByGlobsOfEveryList(t *testing.T) {
	w := &psg.Workload{ID: psg.WorkloadID{Namespace: "ml-prod"}, Tenant: "search", Kind: "training"}
	for _, c := range []struct {
		scope Scope
		want  bool
	}{
		{Scope{}, true},
		{Scope{Namespaces: []string{"web", "ml-*"}}, true},
		{Scope{Namespaces: []string{"ml-"}}, false},
		{Scope{Namespaces: []string{"m?-*d"}, Tenants: []string{"search"}}, true},
		{Scope{Namespaces: []string{"ml-*"}, Kinds: []string{"inference"}}, false},
		{Scope{Tiers: []string{"gold"}}, false},
		{Scope{Tiers: []string{"*"}}, true},
	} {
		if got := c.scope.Covers(w); got != c.want {
			t.Errorf("%+v covers: %t", c.scope, got)
		}
	}
}

func TestGlobMatches_TakesNoExponentialTime(t *testing.T) {
	if globMatches(strings.Repeat("*a", 200)+"b", strings.Repeat("a", 5000)) {
		t.Error("matched")
	}
}

func TestMatch_CountsWhatMatchesEverything(t *testing.T) {
	yes := true
	m := Match{Text: map[MatchField]string{MatchKind: "inf*"}, Labels: map[string]string{"app": "*"}, Preemptible: &yes}
	w := psg.Workload{Kind: "inference", Labels: map[string]string{"app": ""}, Preemptible: true}
	if !m.Counts(&w) {
		t.Error("not counted")
	}
	for name, change := range map[string]func(*psg.Workload){
		"kind": func(w *psg.Workload) { w.Kind = "training" }, "label": func(w *psg.Workload) { w.Labels = nil },
		"preemptible": func(w *psg.Workload) { w.Preemptible = false },
	} {
		changed := w
		change(&changed)
		if m.Counts(&changed) {
			t.Errorf("counted in spite of its %s", name)
		}
	}
}

func FuzzParseBundle(f *testing.F) {
	f.Add(fullBundle)
	for _, c := range wrongBundles {
		if len(c.src) < 1000 {
			f.Add("bundle \"b\" {}\n" + c.src)
		}
	}
	f.Fuzz(func(t *testing.T, src string) {
		bundle, err := ParseBundle("b.hcl", []byte(src))
		if err == nil {
			if bundle.Name == "" {
				t.Error("a bundle without a name")
			}
			return
		}
		var errs BundleErrors
		if !errors.As(err, &errs) || errs[0].Pos.File == "" || errs[0].Pos.Line < 1 || errs[0].Pos.Column < 1 {
			t.Errorf("error without a position: %v", err)
		}
	})
}
