package telemetry

import (
	"cmp"
	"slices"
	"time"

	"github.com/psgrid/psg"
)

// allocs is what samples have said of the allocations on a node.
type allocs struct {
	sorted []*alloc // by ID
	series map[psg.SeriesID]*allocSeries
	made   []psg.AllocTelemetry // of sorted; nil when it must be made anew
}

type alloc struct {
	id     psg.AllocID
	series []*allocSeries // by ID
	made   *psg.AllocTelemetry
}

// allocSeries is one metric of an allocation. Each of its values has the
// sequence that it came with, 0 before the first.
type allocSeries struct {
	id       psg.SeriesID
	of       *alloc
	kind     *kind
	declared uint64
	valueAt  uint64
	last     int64
	useAt    uint64
	use      psg.UseValue
	forecast forecast
}

func (a *allocs) declare(d psg.Declared, sequence uint64, kindOf func(psg.Declared) *kind) {
	if known := a.series[d.ID]; known != nil {
		known.declared = max(known.declared, sequence)
		return
	}
	i, found := slices.BinarySearchFunc(a.sorted, d.Alloc, func(a *alloc, id psg.AllocID) int { return cmp.Compare(a.id, id) })
	if !found {
		a.sorted = slices.Insert(a.sorted, i, &alloc{id: d.Alloc})
	}
	of := a.sorted[i]
	s := &allocSeries{id: d.ID, of: of, kind: kindOf(d), declared: sequence}
	a.series[d.ID] = s
	of.series = append(of.series, s)
	slices.SortFunc(of.series, func(a, b *allocSeries) int { return cmp.Compare(a.id, b.id) })
}

func (a *allocs) value(v psg.Value, sequence uint64) {
	if s := a.series[v.Series]; s != nil && s.valueAt < sequence {
		s.valueAt, s.last = sequence, v.Units
		a.spoil(s.of)
	}
}

func (a *allocs) use(u psg.UseValue, sequence uint64) {
	if s := a.series[u.Series]; s != nil && s.useAt < sequence {
		s.useAt, s.use = sequence, u
		a.spoil(s.of)
	}
}

// forecast is where the forecast of a series is kept, for it to be replaced; nil
// if there is no such series.
func (a *allocs) forecast(id psg.SeriesID) *forecast {
	s := a.series[id]
	if s == nil {
		return nil
	}
	a.spoil(s.of)
	return &s.forecast
}

func (a *allocs) spoil(of *alloc) { a.made, of.made = nil, nil }

func (a *allocs) dropIf(lost func(id psg.SeriesID, declared uint64) bool) {
	for id, s := range a.series {
		if lost(id, s.declared) {
			delete(a.series, id)
			s.of.series = slices.DeleteFunc(s.of.series, func(other *allocSeries) bool { return other == s })
			a.spoil(s.of)
		}
	}
	a.sorted = slices.DeleteFunc(a.sorted, func(of *alloc) bool { return len(of.series) == 0 })
}

// telemetry is of every allocation with a value, by ID. It is made anew only
// where something has arrived.
func (a *allocs) telemetry(at time.Time) []psg.AllocTelemetry {
	if a.made != nil {
		return a.made
	}
	a.made = make([]psg.AllocTelemetry, 0, len(a.sorted))
	for _, of := range a.sorted {
		if of.made == nil {
			of.made = of.telemetry(at)
		}
		if len(of.made.Metrics) > 0 {
			a.made = append(a.made, *of.made)
		}
	}
	return a.made
}

func (a *alloc) telemetry(at time.Time) *psg.AllocTelemetry {
	out := &psg.AllocTelemetry{Alloc: a.id, Metrics: make(map[string]psg.Use, len(a.series))}
	var p projecting
	for _, s := range a.series {
		if s.valueAt == 0 {
			continue
		}
		use := psg.Use{Last: valueOf(s.last, s.kind.scale)}
		use.Mean, use.Max, use.P95 = use.Last, use.Last, use.Last
		if s.useAt > 0 {
			use.Mean, use.Max, use.P95 = valueOf(s.use.Mean, s.kind.scale), valueOf(s.use.Max, s.kind.scale), valueOf(s.use.P95, s.kind.scale)
		}
		out.Metrics[s.kind.metric] = use
		p.add(s.kind.metric, s.forecast)
	}
	out.Projection = p.projection(at)
	return out
}
