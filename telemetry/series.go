package telemetry

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/psgrid/psg"
)

// Series takes the values of one metric. It belongs to its Recorder and is for
// the same goroutine.
type Series struct {
	recorder *Recorder // nil once forgotten
	name     name
	scale    uint32

	id    psg.SeriesID // 0 while absent: not declared, and without a value
	last  int64        // units
	sent  int64        // units
	runs  []run        // of the open slot
	count uint32       // in runs
	quiet int          // whole slots without a value, up to now
	use   use

	forecaster *forecaster   // nil where no use is forecast
	forecast   *psg.Forecast // the last that was sent, or is to be
	news       news          // since the last Cut
}

// news is what of a series the next Cut has to tell.
type news struct{ use, forecast bool }

// Put records a value that was measured at a moment, in the order of time. What
// is no number is ignored. It allocates nothing, but when the series or the slot
// is new.
func (s *Series) Put(at time.Time, value float64) {
	units, ok := unitsOf(value, s.scale)
	if !ok || s.recorder == nil {
		return
	}
	s.recorder.advance(at)
	if s.id == 0 {
		s.recorder.declare(s)
	}
	s.last = units
	n := len(s.runs)
	if n == 0 {
		s.count = 0
	}
	switch {
	case s.count == maxCount: // the slot is full
	case n > 0 && s.runs[n-1].units == units:
		s.runs[n-1].count++
		s.count++
	default:
		s.runs = append(s.runs, run{units, 1})
		s.count++
	}
}

// Absent says that the metric can't be measured any more: readers lose it until
// the next Put.
func (s *Series) Absent() {
	r := s.recorder
	if s.id == 0 || r == nil {
		return
	}
	r.series = slices.DeleteFunc(r.series, func(other *Series) bool { return other == s })
	r.declared = slices.DeleteFunc(r.declared, func(other *Series) bool { return other == s })
	r.changed = slices.DeleteFunc(r.changed, func(other *Series) bool { return other == s })
	r.gone = append(r.gone, s.id)
	s.id, s.quiet, s.runs, s.use = 0, 0, s.runs[:0], use{}
	s.forecaster, s.forecast, s.news = nil, nil, news{}
}

// Forget drops the series for good: what is still put into it counts for nothing,
// and the Recorder keeps nothing of it.
func (s *Series) Forget() {
	s.Absent()
	if s.recorder != nil {
		delete(s.recorder.handles, s.name)
		s.recorder = nil
	}
}

// Name is whose metric it is: of an allocation, or of the node where that is
// empty.
func (s *Series) Name() (alloc psg.AllocID, metric string) { return s.name.alloc, s.name.metric }

// Last is the last value, and whether there is one.
func (s *Series) Last() (value float64, ok bool) { return valueOf(s.last, s.scale), s.id != 0 }

func valueOf(units int64, scale uint32) float64 { return float64(units) / float64(scale) }

func (r *Recorder) declare(s *Series) {
	r.lastID++
	s.id = r.lastID
	r.series = append(r.series, s)
	r.declared = append(r.declared, s)
}

// foresee takes in the mean of a whole slot, in units, and notes a forecast that
// has left the one that was sent.
func (s *Series) foresee(mean float64) {
	dimension, ok := projected(s.name.metric)
	if !ok {
		return
	}
	if s.forecaster == nil {
		s.forecaster = new(forecaster)
	}
	s.forecaster.step(mean/float64(s.scale), &s.recorder.errors)
	expected, upper, ok := s.forecaster.forecast()
	if !ok {
		return
	}
	per, most := s.recorder.config.amount(dimension, s.name.alloc != "")
	if per == 0 {
		return
	}
	amount := func(value float64) int64 { return int64(min(max(math.Round(value*per), 0), most)) }
	now := psg.Forecast{Series: s.id, Mean: amount(expected), Upper: amount(upper)}
	if s.forecast != nil && !differs(now.Mean, s.forecast.Mean) && !differs(now.Upper, s.forecast.Upper) {
		return
	}
	s.forecast, s.news.forecast = &now, true
}

// amount is how much of a dimension a value of 1 is, and how much there can be.
// It is 0 while the CPUs are not known.
func (c Config) amount(of psg.Dimension, alloc bool) (per, most float64) {
	switch {
	case of != psg.CPU:
		return 1, psg.MaxQuantity
	case alloc: // percent of one CPU
		return float64(c.CPUMHz) / float64(max(c.CPUs, 1)) / 100, float64(c.CPUMHz)
	}
	return float64(c.CPUMHz) / 100, float64(c.CPUMHz)
}

// use is what an allocation's series was like in the last whole slot, in units.
type use struct {
	known          bool
	mean, max, p95 int64
}

// update takes the runs of a slot, of which there must be one, and reports
// whether the use has left what it was. It reorders the runs.
func (u *use) update(runs []run) bool {
	now := use{known: true, max: math.MinInt64}
	count := int64(0)
	for _, r := range runs {
		count += int64(r.count)
		now.max = max(now.max, r.units)
	}
	now.mean = int64(math.Round(meanOf(runs)))
	slices.SortFunc(runs, func(a, b run) int { return cmp.Compare(a.units, b.units) })
	rank := int64(math.Ceil(0.95 * float64(count)))
	for _, r := range runs {
		if now.p95 = r.units; rank <= int64(r.count) {
			break
		}
		rank -= int64(r.count)
	}
	if u.known && !differs(now.mean, u.mean) && !differs(now.max, u.max) && !differs(now.p95, u.p95) {
		return false
	}
	*u = now
	return true
}

// meanOf is the mean of runs, of which there must be one, in units.
func meanOf(runs []run) float64 {
	sum, count := int64(0), int64(0)
	for _, r := range runs {
		sum += r.units * int64(r.count)
		count += int64(r.count)
	}
	return float64(sum) / float64(count)
}
