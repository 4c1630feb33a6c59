package policies

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/psgrid/psg"
)

// generator makes policies, nodes and data that are often wrong somewhere:
// fields that are missing, of other types than they are compared with, numbers
// that float64 cannot tell apart.
type generator struct{ *rand.Rand }

func (g generator) pick(from ...string) string { return from[g.IntN(len(from))] }

func (g generator) node() string {
	return g.pick("input.node.attributes.a", "input.node.attributes.b", "input.node.meta.m", "input.node.name", "input.node.domain",
		"input.node.telemetry.x.p95", "input.node.telemetry.y.mean", "input.node.telemetry.x.p95_60s", "input.node.telemetry.x.max", "input.node.agg.inference", "input.node.free.cpu_mhz",
		"input.node.capacity.memory_mb", "input.node.ready", "input.node.projection.cpu_mhz.upper", "input.node.observed_at", "input.node.attributes.never",
		"data.src[input.node.name]", "data.src[input.node.name].n", "data.by[input.node.domain]")
}

func (g generator) known() string {
	return g.pick("input.workload.labels.l", "input.workload.labels.never", "input.workload.kind", "input.workload.priority", "input.workload.gpus",
		"input.workload.preemptible", "data.params.k", "data.params.s", "data.params.never", "data.params.big")
}

func (g generator) constant() string {
	return g.pick("0", "1", "2", "2.5", `"1"`, `"r1"`, `"x"`, "true", "false", "null", "9007199254740993", "9007199254740992", "0.1", "-3", `["x"]`)
}

func (g generator) number() string {
	return g.pick("input.node.telemetry.x.p95", "input.node.telemetry.y.mean", "input.node.telemetry.y.max_60s", "input.node.agg.inference", "input.node.free.cpu_mhz",
		"input.workload.priority", "data.params.k", "count(input.node.workloads)", "data.cluster.placed", "2", "0.1", "input.now")
}

func (g generator) operator() string { return g.pick("==", "!=", ">", ">=", "<", "<=") }

func (g generator) value() string {
	if g.IntN(3) == 0 {
		return g.known()
	}
	return g.node()
}

// condition is one expression. Rules whose names begin with h are defined
// before what uses them.
func (g generator) condition(rules ...string) string {
	kinds := 27
	if len(rules) > 0 && g.IntN(3) == 0 {
		return g.use(g.pick(rules...))
	}
	switch g.IntN(kinds) {
	case 0, 1, 2:
		return fmt.Sprintf("%s %s %s", g.node(), g.operator(), g.constant())
	case 3:
		return fmt.Sprintf("%s %s %s", g.constant(), g.operator(), g.node())
	case 4:
		return fmt.Sprintf("%s %s %s", g.value(), g.operator(), g.value())
	case 5:
		return fmt.Sprintf("%s %s %s", g.known(), g.operator(), g.constant())
	case 6, 7:
		return "not " + g.simple(rules)
	case 8:
		return g.value()
	case 9:
		return fmt.Sprintf("%s %s %s %s %s", g.number(), g.pick("+", "-", "*"), g.number(), g.operator(), g.constant())
	case 10:
		return fmt.Sprintf("%s / 2 %s %s", g.number(), g.operator(), g.number())
	case 11:
		return fmt.Sprintf("%s in %s", g.pick(g.value(), g.constant()), g.pick(`{"r1", "x", 1}`, `["r2", input.workload.labels.l]`, "data.params.list", "data.src.list", `{n | some n, c in data.cluster.domains; c.placed > 1}`))
	case 12:
		return fmt.Sprintf("count([w | some w in input.node.workloads; w.%s == %s]) %s %s", g.pick("kind", "tier", "tenant"), g.pick(`"inference"`, `"gold"`, "input.workload.kind"), g.operator(), g.pick("0", "1", "2", "data.params.k"))
	case 13:
		return fmt.Sprintf("some w in input.node.workloads; w.%s %s %s", g.pick("kind", "tier", "gpus"), g.operator(), g.pick(`"inference"`, "1", "input.workload.kind", "input.node.attributes.a"))
	case 14:
		return fmt.Sprintf("every w in input.node.workloads { w.%s %s %s }", g.pick("kind", "tier"), g.operator(), g.pick(`"inference"`, "input.workload.kind"))
	case 15:
		return fmt.Sprintf("object.get(%s, %s, %s) %s %s", g.pick("input.node.attributes", "input.workload.labels", "input.node.meta"), g.pick(`"a"`, `"never"`, `"m"`, `"l"`), g.constant(), g.operator(), g.constant())
	case 16:
		return fmt.Sprintf("some w in data.src[input.node.name].windows; w.start <= input.now; input.now < %s", g.pick("w.end", "w.stop"))
	case 17:
		return fmt.Sprintf("startswith(%s, %s)", g.pick("input.node.name", "input.node.domain", "input.node.class"), g.pick(`"n00"`, `"d"`, "input.workload.kind"))
	case 18:
		return fmt.Sprintf("regex.match(`^[0-9]+$`, %s)", g.pick("input.node.attributes.a", "input.node.name", "input.workload.labels.l"))
	case 19:
		return fmt.Sprintf("to_number(%s) %s 1", g.pick("input.node.attributes.a", "input.workload.labels.l"), g.operator())
	case 20:
		return fmt.Sprintf("x := %s; %s", g.value(), g.pick("x == 1", "not x == 1", "x != null", "y := x; y", "is_string(x)"))
	case 21:
		return fmt.Sprintf("data.cluster.services[input.workload.service].placed %s %s", g.operator(), g.pick("0", "1", "data.params.k", "input.node.agg.inference"))
	case 22:
		return fmt.Sprintf("data.cluster.domains[input.node.domain].%s %s %s", g.pick("nodes", "placed"), g.operator(), g.pick("1", "2", "20"))
	case 23:
		return fmt.Sprintf("is_%s(%s)", g.pick("number", "string", "boolean", "null"), g.value())
	case 24:
		return fmt.Sprintf("some k, v in input.node.attributes; %s == v", g.pick("k", "input.workload.labels.l", `"1"`))
	case 25:
		return fmt.Sprintf("max([%s, %s]) %s %s", g.number(), g.number(), g.operator(), g.constant())
	default:
		return fmt.Sprintf("sprintf(\"%%v\", [%s]) %s %s", g.value(), g.operator(), g.pick(`"1"`, `"r1"`, g.node()))
	}
}

func (g generator) simple(rules []string) string {
	for {
		if c := g.condition(rules...); !strings.Contains(c, ";") && !strings.HasPrefix(c, "not ") && !strings.HasPrefix(c, "some ") && !strings.HasPrefix(c, "every ") {
			return c
		}
	}
}

func (g generator) use(rule string) string {
	switch {
	case strings.HasPrefix(rule, "hf"):
		return fmt.Sprintf("%s(%s) %s %s", rule, g.value(), g.operator(), g.constant())
	case strings.HasPrefix(rule, "hs"):
		return g.pick(fmt.Sprintf("%s in %s", g.value(), rule), fmt.Sprintf("count(%s) > 1", rule), fmt.Sprintf("%s[%s]", rule, g.pick(`"1"`, g.node())))
	}
	return g.pick(rule, "not "+rule, rule+" == 1", rule+" != 2", rule+" "+g.operator()+" "+g.constant())
}

func (g generator) body(rules ...string) string {
	conditions := make([]string, 1+g.IntN(3))
	for i := range conditions {
		conditions[i] = g.condition(rules...)
	}
	return strings.Join(conditions, "\n\t")
}

// policy is a whole file.
func (g generator) policy() string {
	var b strings.Builder
	b.WriteString("package p\n\n")
	var rules []string
	rule := func(name, format string, args ...any) {
		if g.IntN(2) == 0 {
			fmt.Fprintf(&b, format+"\n\n", args...)
			rules = append(rules, name)
		}
	}
	rule("h1", "h1 := 1 if {\n\t%s\n}", g.body())
	rule("h2", "default h2 := false\n\nh2 if {\n\t%s\n}\n\nh2 if {\n\t%s\n}", g.body(rules...), g.body(rules...))
	rule("h3", "h3 := 1 if {\n\t%s\n} else := 2 if {\n\t%s\n}", g.body(rules...), g.body())
	rule("h4", "h4 := %s", g.node())
	rule("hs", "hs contains %s if {\n\t%s\n}", g.value(), g.body())
	rule("hf", "hf(x) := 1 if {\n\tx == %s\n} else := 2 if {\n\t%s\n}", g.constant(), g.body())
	if g.IntN(8) == 0 {
		rule("h6", "h6 := 1 if {\n\t%s\n}\n\nh6 := 2 if {\n\t%s\n}", g.body(), g.body())
	}
	reasons := []string{`"one"`, `"two"`, `sprintf("%s: %v", [input.node.name, ` + g.value() + `])`, `sprintf("%v", [` + g.value() + `])`}
	for range 1 + g.IntN(3) {
		fmt.Fprintf(&b, "deny contains %s if {\n\t%s\n}\n\n", g.pick(reasons...), g.body(rules...))
	}
	if g.IntN(3) == 0 {
		fmt.Fprintf(&b, "deny contains sprintf(\"beside %%s\", [w.kind]) if {\n\tsome w in input.node.workloads\n\tw.tier == %s\n\t%s\n}\n\n", g.pick(`"gold"`, "input.workload.tier"), g.body(rules...))
	}
	for i := range g.IntN(3) {
		points := g.pick("1", "-2.5", g.number(), "p", "p * -3", "p - data.params.k")
		fmt.Fprintf(&b, "score contains [%s, %s] if {\n\tp := %s\n\t%s\n}\n\n", g.pick(fmt.Sprintf("%q", fmt.Sprint("s", i)), `"same"`), points, g.number(), g.body(rules...))
	}
	return b.String()
}

func (g generator) bundle() string {
	return `-- bundle.hcl --
bundle "b" {}
policy "p" {
  rego   = "p.rego"
  weight = 3
  params = { k = 1, s = "r1", list = ["r1", 1, true], big = 9007199254740993 }
}
aggregate "inference" {
  match = { kind = "inf*" }
}
data "http" "src" {
  url      = "http://127.0.0.1/"
  interval = "10s"
  on_stale = "ignore"
}
data "http" "by" {
  url      = "http://127.0.0.1/"
  interval = "10s"
  on_stale = "ignore"
}
-- p.rego --
` + g.policy()
}

func (g generator) cluster(nodes int) *psg.Snapshot {
	s := randomCluster(g.Rand, nodes)
	for i := range s.Nodes {
		g.change(&s.Nodes[i])
	}
	return s
}

func (g generator) float() float64 {
	return []float64{0, 1, 2, 2.5, 0.1, 0.30000000000000004, 9007199254740992, 1e300, -3, math.NaN(), math.Inf(1), g.NormFloat64()}[g.IntN(12)]
}

func (g generator) stats() psg.Stats {
	out := psg.Stats{Last: g.float(), Mean: g.float(), Max: g.float(), P50: g.float(), P95: g.float(), P99: g.float()}
	if g.IntN(3) > 0 {
		out.Over60s = &psg.Summary{Mean: g.float(), Max: g.float(), P50: g.float(), P95: g.float(), P99: g.float()}
	}
	return out
}

// change gives a node new fields, some of them missing.
func (g generator) change(n *psg.Node) {
	n.Version++
	n.Class, n.Domain = g.pick("", "big", "d1"), g.pick("", "d1", "r1")
	n.Capacity[psg.Memory] = g.Int64N(3)
	n.Attributes, n.Meta = map[string]string{}, map[string]string{}
	for _, name := range []string{"a", "b"} {
		if g.IntN(3) > 0 {
			n.Attributes[name] = g.pick("1", "2", "r1", "x", "", "0.1", "9007199254740993", n.Name)
		}
	}
	if g.IntN(2) == 0 {
		n.Meta["m"] = g.pick("1", "x")
	}
	g.observe(n)
	if g.IntN(2) == 0 {
		n.Projection = &psg.Projection{Upper: psg.Resources{g.Int64N(4)}}
	}
}

func (g generator) observe(n *psg.Node) {
	n.Telemetry = nil
	if g.IntN(5) > 0 {
		n.Telemetry = &psg.Telemetry{At: time.Unix(g.Int64N(3), 0), Metrics: map[string]psg.Stats{}}
		for _, metric := range []string{"x", "y"} {
			if g.IntN(4) > 0 {
				n.Telemetry.Metrics[metric] = g.stats()
			}
		}
	}
}

func (g generator) workload() *psg.Workload {
	w := gpuJob(g.pick("training", "inference", "r1"), g.IntN(3))
	w.ID.Job = g.pick("job-inference", "gold", "new")
	w.Version, w.Priority, w.Preemptible, w.Tier = g.Uint64(), g.IntN(3), g.IntN(2) == 0, g.pick("", "gold")
	if g.IntN(3) > 0 {
		w.Labels = map[string]string{"l": g.pick("1", "r1", "x", "true")}
	}
	return w
}

// source is what a data source answers: by node and otherwise, of any type.
func (g generator) source(s *psg.Snapshot) map[string]any {
	out := map[string]any{"list": []any{"r1", 1, nil}}
	for i := range s.Nodes {
		switch g.IntN(6) {
		case 0:
			out[s.Nodes[i].Name] = map[string]any{"n": []any{1, "x", nil, 2.5}[g.IntN(4)]}
		case 1:
			out[s.Nodes[i].Name] = map[string]any{"windows": []any{
				map[string]any{"start": 0, "end": []any{1 << 62, "x", 5}[g.IntN(3)]}, map[string]any{"start": 2000000000000}, "x"}}
		case 2:
			out[s.Nodes[i].Name] = []any{1, "x", true, false}[g.IntN(4)]
		}
	}
	for _, domain := range []string{"d1", "r1", "dc0"} {
		if g.IntN(2) == 0 {
			out[domain] = []any{1, "x", true, nil}[g.IntN(4)]
		}
	}
	return out
}
