package wire

import (
	"math"
	"slices"

	"github.com/psgrid/psg"
	psgv1 "github.com/psgrid/psg/wire/psg/v1"
)

// EncodeNodeSample writes one observation with its number: the samples of one
// run of an agent count from 1.
func EncodeNodeSample(observed psg.NodeObserved, sequence uint64) ([]byte, error) {
	var c coder
	return marshal(&c, "node sample", &psgv1.NodeSample{
		Node:     string(observed.Node),
		Sequence: sequence,
		At:       putTime(&c, "at", observed.Telemetry.At),
		Metrics:  putMetrics(&c, observed.Telemetry.Metrics),
	})
}

// DecodeNodeSample reads what EncodeNodeSample wrote.
func DecodeNodeSample(data []byte) (observed psg.NodeObserved, sequence uint64, err error) {
	sample := &psgv1.NodeSample{}
	observed, err = decode(data, "node sample", sample, func(c *coder, s *psgv1.NodeSample) psg.NodeObserved {
		return psg.NodeObserved{
			Node: psg.NodeID(s.GetNode()),
			Telemetry: psg.Telemetry{
				At:      getTime(c, "at", s.GetAt()),
				Metrics: getMetrics(c, s.GetMetrics()),
			},
		}
	})
	return observed, sample.GetSequence(), err
}

func putTelemetry(c *coder, t psg.Telemetry) *psgv1.Telemetry {
	return &psgv1.Telemetry{At: putTime(c, "at", t.At), Metrics: putMetrics(c, t.Metrics)}
}

func getTelemetry(c *coder, t *psgv1.Telemetry) psg.Telemetry {
	return psg.Telemetry{At: getTime(c, "at", t.GetAt()), Metrics: getMetrics(c, t.GetMetrics())}
}

func putMetrics(c *coder, in map[string]psg.Stats) map[string]*psgv1.Stats {
	if len(in) == 0 {
		return nil
	}
	checkFinite(c, in)
	out := make(map[string]*psgv1.Stats, len(in))
	for name, s := range in {
		out[name] = &psgv1.Stats{Last: s.Last, Mean: s.Mean, Max: s.Max, P50: s.P50, P95: s.P95, P99: s.P99}
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
			Last: s.GetLast(),
			Mean: s.GetMean(),
			Max:  s.GetMax(),
			P50:  s.GetP50(),
			P95:  s.GetP95(),
			P99:  s.GetP99(),
		}
	}
	checkFinite(c, out)
	return out
}

// checkFinite fails for the metric, first by name, that holds no number.
func checkFinite(c *coder, metrics map[string]psg.Stats) {
	var bad []string
	for name, s := range metrics {
		for _, v := range [...]float64{s.Last, s.Mean, s.Max, s.P50, s.P95, s.P99} {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				bad = append(bad, name)
			}
		}
	}
	if bad != nil {
		c.fail("metrics", "%q is not a finite number", slices.Min(bad))
	}
}
