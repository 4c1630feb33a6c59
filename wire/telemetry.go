package wire

import (
	"math"
	"slices"

	"github.com/psgrid/psg"
	psgv1 "github.com/psgrid/psg/wire/psg/v1"
)

func putTelemetry(c *coder, t psg.Telemetry) *psgv1.Telemetry {
	return &psgv1.Telemetry{
		At:      putTime(c, "at", t.At),
		Metrics: putMetrics(c, t.Metrics),
		Allocs:  each(c, "allocs", t.Allocs, putAllocTelemetry),
	}
}

func getTelemetry(c *coder, t *psgv1.Telemetry) psg.Telemetry {
	return psg.Telemetry{
		At:      getTime(c, "at", t.GetAt()),
		Metrics: getMetrics(c, t.GetMetrics()),
		Allocs:  each(c, "allocs", t.GetAllocs(), getAllocTelemetry),
	}
}

func putMetrics(c *coder, in map[string]psg.Stats) map[string]*psgv1.Stats {
	if len(in) == 0 {
		return nil
	}
	checkFinite(c, in, numbersOfStats)
	out := make(map[string]*psgv1.Stats, len(in))
	for name, s := range in {
		out[name] = &psgv1.Stats{
			Last: s.Last, Mean: s.Mean, Max: s.Max, P50: s.P50, P95: s.P95, P99: s.P99,
			Over_60S: putOptional(c, "over_60s", s.Over60s, putSummary),
			Over_5M:  putOptional(c, "over_5m", s.Over5m, putSummary),
		}
	}
	return out
}

func getMetrics(c *coder, in map[string]*psgv1.Stats) map[string]psg.Stats {
	if len(in) == 0 {
		return nil
	}
	out := make(map[string]psg.Stats, len(in))
	for name, s := range in {
		out[name] = psg.Stats{
			Last:    s.GetLast(),
			Mean:    s.GetMean(),
			Max:     s.GetMax(),
			P50:     s.GetP50(),
			P95:     s.GetP95(),
			P99:     s.GetP99(),
			Over60s: getOptional(c, "over_60s", s.GetOver_60S(), getSummary),
			Over5m:  getOptional(c, "over_5m", s.GetOver_5M(), getSummary),
		}
	}
	checkFinite(c, out, numbersOfStats)
	return out
}

func putSummary(_ *coder, s psg.Summary) *psgv1.Summary {
	return &psgv1.Summary{Mean: s.Mean, Max: s.Max, P50: s.P50, P95: s.P95, P99: s.P99}
}

func getSummary(_ *coder, s *psgv1.Summary) psg.Summary {
	return psg.Summary{Mean: s.GetMean(), Max: s.GetMax(), P50: s.GetP50(), P95: s.GetP95(), P99: s.GetP99()}
}

func putAllocTelemetry(c *coder, a psg.AllocTelemetry) *psgv1.AllocTelemetry {
	checkFinite(c, a.Metrics, numbersOfUse)
	out := &psgv1.AllocTelemetry{
		Alloc:      string(a.Alloc),
		Projection: putOptional(c, "projection", a.Projection, putProjection),
	}
	if len(a.Metrics) > 0 {
		out.Metrics = make(map[string]*psgv1.Use, len(a.Metrics))
	}
	for name, u := range a.Metrics {
		out.Metrics[name] = &psgv1.Use{Last: u.Last, Mean: u.Mean, Max: u.Max, P95: u.P95}
	}
	return out
}

func getAllocTelemetry(c *coder, a *psgv1.AllocTelemetry) psg.AllocTelemetry {
	out := psg.AllocTelemetry{
		Alloc:      psg.AllocID(a.GetAlloc()),
		Projection: getOptional(c, "projection", a.GetProjection(), getProjection),
	}
	if len(a.GetMetrics()) > 0 {
		out.Metrics = make(map[string]psg.Use, len(a.GetMetrics()))
	}
	for name, u := range a.GetMetrics() {
		out.Metrics[name] = psg.Use{Last: u.GetLast(), Mean: u.GetMean(), Max: u.GetMax(), P95: u.GetP95()}
	}
	checkFinite(c, out.Metrics, numbersOfUse)
	return out
}

func numbersOfStats(s psg.Stats) []float64 {
	numbers := []float64{s.Last, s.Mean, s.Max, s.P50, s.P95, s.P99}
	for _, longer := range [...]*psg.Summary{s.Over60s, s.Over5m} {
		if longer != nil {
			numbers = append(numbers, longer.Mean, longer.Max, longer.P50, longer.P95, longer.P99)
		}
	}
	return numbers
}

func numbersOfUse(u psg.Use) []float64 { return []float64{u.Last, u.Mean, u.Max, u.P95} }

// checkFinite fails for the metric, first by name, that holds no number.
func checkFinite[T any](c *coder, metrics map[string]T, numbers func(T) []float64) {
	var bad []string
	for name, s := range metrics {
		for _, v := range numbers(s) {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				bad = append(bad, name)
			}
		}
	}
	if bad != nil {
		c.fail("metrics", "%q is not a finite number", slices.Min(bad))
	}
}
