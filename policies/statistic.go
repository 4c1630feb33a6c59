package policies

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/hclspec"
)

// statistic is one of what input.node.telemetry.METRIC holds.
type statistic struct {
	name string
	of   func(psg.Stats) float64
}

// statisticTable is sorted by name. It is never written to.
var statisticTable = [...]statistic{
	{"last", func(s psg.Stats) float64 { return s.Last }},
	{"max", func(s psg.Stats) float64 { return s.Max }},
	{"max_5m", func(s psg.Stats) float64 { return over(s.Over5m).Max }},
	{"max_60s", func(s psg.Stats) float64 { return over(s.Over60s).Max }},
	{"mean", func(s psg.Stats) float64 { return s.Mean }},
	{"mean_5m", func(s psg.Stats) float64 { return over(s.Over5m).Mean }},
	{"mean_60s", func(s psg.Stats) float64 { return over(s.Over60s).Mean }},
	{"p50", func(s psg.Stats) float64 { return s.P50 }},
	{"p50_5m", func(s psg.Stats) float64 { return over(s.Over5m).P50 }},
	{"p50_60s", func(s psg.Stats) float64 { return over(s.Over60s).P50 }},
	{"p95", func(s psg.Stats) float64 { return s.P95 }},
	{"p95_5m", func(s psg.Stats) float64 { return over(s.Over5m).P95 }},
	{"p95_60s", func(s psg.Stats) float64 { return over(s.Over60s).P95 }},
	{"p99", func(s psg.Stats) float64 { return s.P99 }},
	{"p99_5m", func(s psg.Stats) float64 { return over(s.Over5m).P99 }},
	{"p99_60s", func(s psg.Stats) float64 { return over(s.Over60s).P99 }},
}

// unknownSummary is of a window of which nothing is known. It is never written to.
var unknownSummary = psg.Summary{Mean: math.NaN(), Max: math.NaN(), P50: math.NaN(), P95: math.NaN(), P99: math.NaN()}

func over(window *psg.Summary) *psg.Summary {
	if window == nil {
		return &unknownSummary
	}
	return window
}

func statistics() []string {
	names := make([]string, len(statisticTable))
	for i, s := range statisticTable {
		names[i] = s.name
	}
	return names
}

// statisticIndex finds a statistic by its name; -1 if there is none.
func statisticIndex(name string) int {
	return slices.IndexFunc(statisticTable[:], func(s statistic) bool { return s.name == name })
}

// measure is a statistic of a metric, by its index; NaN for none.
func measure(t *psg.Telemetry, metric string, index int) float64 {
	if t != nil && index >= 0 {
		if stats, ok := t.Metrics[metric]; ok {
			if f := statisticTable[index].of(stats); !math.IsInf(f, 0) {
				return f
			}
		}
	}
	return math.NaN()
}

// statisticsDocument leaves out what is not a number: it is undefined to Rego,
// as JSON cannot say it.
func statisticsDocument(stats psg.Stats) *ast.Term {
	var fields [][2]*ast.Term
	for _, s := range statisticTable {
		if value := finite(s.of(stats)); value != nil {
			fields = append(fields, field(s.name, ast.NewTerm(value)))
		}
	}
	return ast.ObjectTerm(fields...)
}

// badStatistic checks input.node.telemetry.METRIC.STATISTIC, which OPA's type
// checker takes for an object with any keys.
func badStatistic(ref ast.Ref) string {
	if len(ref) < 5 || !ref.HasPrefix(ast.MustParseRef("input.node.telemetry")) {
		return ""
	}
	name, ok := ref[4].Value.(ast.String)
	if !ok || statisticIndex(string(name)) >= 0 {
		return ""
	}
	return fmt.Sprintf("%s: no statistic %q among %s%s", ref, string(name), strings.Join(statistics(), ", "), hclspec.DidYouMean(string(name), statistics()))
}
