package telemetry

import (
	"time"

	"github.com/psgrid/psg"
)

// Cut returns what has changed since the last Cut, or everything when a full
// sample is due, and at most one whole slot. The sample is the caller's. It is
// called after each collection: a sample without changes says that the node is
// still there and its values are what they were.
func (r *Recorder) Cut(at time.Time) psg.Sample {
	r.advance(at)
	r.sequence++
	now := r.clock(at)
	sample := psg.Sample{
		Node: r.node, Session: r.session, Sequence: r.sequence, At: now.Round(0),
	}
	if again := r.resync.Swap(false); again || r.full || !now.Before(r.nextFull) {
		r.cutAll(&sample, now)
	} else {
		r.cutChanges(&sample, now)
	}
	if sample.Full || r.found {
		sample.Inventory, r.found = r.inventory, false
	}
	r.declared, r.changed, r.gone = r.declared[:0], r.changed[:0], nil
	if last := len(r.due) - 1; last >= 0 {
		sample.Slots, r.due = []psg.Slot{r.due[last]}, r.due[:last]
	}
	return sample
}

func (r *Recorder) cutAll(sample *psg.Sample, now time.Time) {
	r.full, r.nextFull, r.nextAlloc = false, now.Add(r.config.FullEvery), now.Add(r.config.AllocEvery)
	sample.Full = true
	sample.Declared = make([]psg.Declared, 0, len(r.series))
	sample.Values = make([]psg.Value, 0, len(r.series))
	for _, s := range r.series {
		sample.Declared = append(sample.Declared, s.declared())
		sample.Values = append(sample.Values, psg.Value{Series: s.id, Units: s.last})
		s.sent = s.last
		s.news = news{use: s.use.known, forecast: s.forecast != nil}
		s.tell(sample)
	}
	r.due = append(r.due[:0], r.slots...)
}

func (r *Recorder) cutChanges(sample *psg.Sample, now time.Time) {
	allocs := !now.Before(r.nextAlloc)
	if allocs {
		r.nextAlloc = now.Add(r.config.AllocEvery)
	}
	fresh := r.declared
	for _, s := range r.series {
		isNew := len(fresh) > 0 && fresh[0] == s
		if isNew {
			fresh = fresh[1:]
			sample.Declared = append(sample.Declared, s.declared())
		}
		if isNew || (s.name.alloc == "" || allocs) && differs(s.last, s.sent) {
			sample.Values = append(sample.Values, psg.Value{Series: s.id, Units: s.last})
			s.sent = s.last
		}
	}
	for _, s := range r.changed {
		s.tell(sample)
	}
	sample.Gone = r.gone
}

func (s *Series) declared() psg.Declared {
	return psg.Declared{ID: s.id, Metric: s.name.metric, Alloc: s.name.alloc, Scale: s.scale}
}

// tell adds the news of a series to a sample.
func (s *Series) tell(sample *psg.Sample) {
	if s.news.use {
		sample.Uses = append(sample.Uses, psg.UseValue{Series: s.id, Mean: s.use.mean, Max: s.use.max, P95: s.use.p95})
	}
	if s.news.forecast {
		sample.Forecasts = append(sample.Forecasts, *s.forecast)
	}
	s.news = news{}
}
