package policies

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// What OPA itself plans or evaluates partially to another meaning, and what it
// takes for a key of data alone, is left to it.
func TestTiers_SayTheSameWhereOPADiffersFromItself(t *testing.T) {
	const rules = `
two.r1.b := 1 if input.node.ready

two.x.b := 2

index(i) := ["r1", "x", false][i]
`
	for _, condition := range []string{
		// A list under not: partial evaluation loses the key.
		`not ["a", false, true][input.node.agg.inference]`,
		`not [1, 2][input.node.agg.inference] == 2`,
		`not input.workload.devices[input.node.agg.inference].count == 1`,
		"list := data.params.list\n\tnot list[input.node.agg.inference] == 1",
		`not index(input.node.agg.inference) == "x"`,
		// The text of a number is a key of a list, in data.
		`data.src.list["0"] == "r1"`,
		`data.src.list[input.node.attributes.a] == 1`,
		`data.params.list["1"] == 1`,
		`data.params.list[input.node.attributes.a] == 1`,
		`data.params.list[input.workload.labels.l] == 1`,
		`data.by[input.node.attributes.a][0] == 1`,
		"list := data.src.list\n\tlist[\"0\"] == \"r1\"",
		// Plans of a negation that holds in several ways.
		`not walk(input.node.attributes, [["a"], "1"])`,
		`count([1 | not walk(input.node.attributes, [["a"], "1"])]) == 1`,
		`not two[input.node.attributes.a].b == 1`,
		`not two[input.node.attributes.a]`,
		// An object whose keys are variables.
		`{input.node.attributes.a: 1} == {"1": 1}`,
		`{input.node.attributes.a: 1, input.node.attributes.b: 1} == {"1": 1}`,
		`{input.node.attributes.a: 1, input.node.attributes.b: 2}["1"] == 1`,
		"o := {input.node.attributes.a: 1, input.node.attributes.b: 2}\n\to[\"1\"] == 1",
		// An error before a condition that is known not to hold.
		"count([1 | some w in input.node.workloads; 1 / w.gpus > 0]) >= 0\n\tinput.workload.priority > 1",
		"x := {n | some v in input.node.attributes; n := to_number(v)}\n\tinput.workload.priority > 1\n\tcount(x) > 0",
	} {
		for _, form := range []string{
			"deny contains \"no\" if {\n\tCONDITION\n}\n",
			"deny contains \"no\" if not h\n\nh if {\n\tCONDITION\n}\n",
			"score contains [\"s\", 1] if {\n\tinput.workload.labels.l == \"1\"\n\tCONDITION\n}\n",
		} {
			g := generator{rand.New(rand.NewPCG(7, 3))}
			bundle, _, _ := strings.Cut(g.bundle(), "package p\n")
			text := bundle + "package p\n" + rules + "\n" + strings.ReplaceAll(form, "CONDITION", condition)
			sets, ok := loadTiers(t, text)
			if !ok {
				t.Fatalf("no policy: %s", text)
			}
			s := g.cluster(20)
			sets.feed(t, "src", g.source(s), s.At)
			sets.feed(t, "by", map[string]any{"1": []any{1}, "x": 1}, s.At)
			for range 4 {
				if w := g.workload(); !sets.agree(t, w, s) {
					t.Fatalf("workload %+v:\n%s", w, text)
				}
			}
		}
	}
}
