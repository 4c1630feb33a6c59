package policies

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

// calculating reads a source, a param and a measurement.
func calculating(rego string) string {
	return `
-- bundle.hcl --
bundle "b" {}
policy "p" {
  rego   = "p.rego"
  params = { huge = 1e999, large = 1e308, tiny = -1e-999, small = 1e-308, one = 1 }
}
data "http" "src" {
  url      = "http://127.0.0.1/"
  interval = "60s"
}
-- p.rego --
package p

x := data.src[input.node.name]

y := data.src.all

z := input.node.telemetry.load.p95

` + rego
}

// Of what a source gives it is not known that it can be calculated with, so the
// first is not for columns.
const (
	withSource = `
deny contains "round" if round(x) > y

deny contains "ceil" if ceil(x) == y

deny contains "floor" if floor(x) >= 1e300

deny contains "abs" if abs(x) < 1e-300

deny contains "plus" if x + data.params.huge > data.params.huge

deny contains "minus" if x - y < data.params.tiny

deny contains "times" if x * y < 1e-200

deny contains "product" if (x * 1e308) * z > y

score contains ["points", x * 1e-300]
`
	withMeasured = `
deny contains "less" if x < y

deny contains "equal" if x == y

deny contains "measured" if x < z

deny contains "underflow" if (z * data.params.small) * 1e300 > 1e-320

deny contains "denormal" if z * data.params.large > 4.97e-16

deny contains "exact" if z * data.params.tiny == 0

deny contains "overflow" if (z * data.params.large) * data.params.large > y

deny contains "huge" if z + data.params.huge > data.params.huge

deny contains "rounded" if round(z * data.params.huge) == ceil(z * data.params.huge)

deny contains sprintf("%v of %v", [x, y]) if x != y

deny contains "as written" if sprintf("%v", [[y]]) == "[1.0]"

deny contains "of node as written" if sprintf("%v", [[x]]) == "[1.0]"

score contains ["points", z * data.params.small]
`
)

// calculable are numbers at the bounds of float64, of texts and of what is taken.
func calculable() []string {
	return []string{"0", "-0", "0.0", "1", "1.0", "10e-1", "-1", "0.5", "4.5e-16", "4e-324", "5e-324", "2.5e-324", "1e-308", "-1e-400", "1e-400", "1e-999", "9e-200",
		"1e308", "1.7976931348623157e308", "1.7976931348623159e308", "1e309", "-1e400", "1e400", "1e999", "1e300", "9007199254740993", "-9223372036854775809",
		strings.Repeat("7", 400), "0." + strings.Repeat("7", 400), strings.Repeat("9", 1000)}
}

// Whatever numbers there are, all tiers say the same of them.
func TestTiers_CalculateTheSame(t *testing.T) {
	numbers, measured := calculable(), []float64{1, 1e308, 5e-324, 1e-308, -3e-320, 0, 0.1}
	for name, c := range map[string]struct {
		rego    string
		columns bool
	}{"source": {withSource, false}, "measured": {withMeasured, true}} {
		t.Run(name, func(t *testing.T) {
			sets, ok := loadTiers(t, calculating(c.rego))
			if !ok {
				t.Fatal("it is no policy")
			}
			view := cluster(make([][]*psg.Workload, len(numbers))...)
			for i := range view.Nodes {
				view.Nodes[i].Telemetry = &psg.Telemetry{Metrics: map[string]psg.Stats{"load": {P95: measured[i%len(measured)]}}}
			}
			w := gpuJob("training", 1)
			for round, y := range []string{"1", "1.0", "0", "1e-999", "-1e400", "1e300", "1.0"} {
				answer := fmt.Sprintf(`{"all": %s`, y)
				for i, node := range view.Nodes {
					answer += fmt.Sprintf(`, %q: %s`, node.Name, numbers[(i+round/2)%len(numbers)])
				}
				sets.feed(t, "src", json.RawMessage(answer+"}"), view.At.Add(time.Duration(round)))
				if !sets.agree(t, w, view) {
					t.Errorf("y is %.40s", y)
				}
			}
			if sets.columns(w) != c.columns {
				t.Errorf("it is decided by columns: %t", !c.columns)
			}
		})
	}
}

// A number that would take long to calculate with does not get in.
func TestFeed_RefusesNumbersBeyondReason(t *testing.T) {
	set := mustLoad(t, Config{}, calculating(withSource))
	view := cluster(nil)
	const want = `feed data "src": value.a[1].b: `
	for _, number := range []string{"1e1000", "-1e-30000", "1E999999999", "1e-999999999", "1e99999999999999999999", strings.Repeat("7", 1001), "0." + strings.Repeat("7", 1_000_000)} {
		text := json.RawMessage(`{"a": [1, {"b": ` + number + `}]}`)
		for _, value := range []any{text, map[string]any{"a": []any{1, map[string]any{"b": json.Number(number)}}}} {
			err := set.Feed("src", value, view.At)
			if err == nil || len(err.Error()) > 200 {
				t.Fatalf("%.20s (%T): %v", number, value, err)
			}
			if _, isText := value.(json.RawMessage); isText || !strings.Contains(err.Error(), "invalid number") { // as OPA has some of them
				refuses(t, err, want)
				refuses(t, err, "is a number of more than 1000 digits")
			}
		}
	}
	if err := set.Feed("src", map[string]any{"a": strings.Repeat("7", 2000)}, view.At); err != nil {
		t.Errorf("a text of digits: %v", err)
	}
}
