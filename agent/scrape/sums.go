package scrape

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/agent"
)

// key is one metric of the node or of an allocation.
type key struct {
	alloc  psg.AllocID
	metric string
}

// sum is of the samples of one key: of several interfaces, of several tasks.
type sum struct {
	value   float64
	at      time.Time // of the latest of them
	counter bool
}

// sums are what one answer comes to.
type sums struct {
	now time.Time
	of  map[key]sum
}

func newSums(now time.Time) *sums { return &sums{now: now, of: map[key]sum{}} }

// maxSums bounds what one answer can make the agent hold.
const maxSums = 4096

// set takes a quantity of which there is one.
func (s *sums) set(k key, from *sample, factor float64) {
	delete(s.of, k)
	s.add(k, from, factor, false)
}

func (s *sums) add(k key, from *sample, factor float64, counter bool) {
	was, known := s.of[k]
	if !known && len(s.of) >= maxSums {
		return
	}
	at := from.at
	if at.IsZero() {
		at = s.now
	}
	if at.Before(was.at) {
		at = was.at
	}
	s.of[k] = sum{was.value + from.value*factor, at, counter}
}

// rate is a counter as it was last read, and how fast it grew before that.
type rate struct {
	sum       sum
	perSecond float64
	known     bool
}

// step takes in a reading. A counter that the exporter has not read again keeps
// its rate; one that stepped back was made anew, and has none.
func (r rate) step(now sum) rate {
	passed := now.at.Sub(r.sum.at).Seconds()
	switch {
	case r.sum.at.IsZero(), now.value < r.sum.value:
		return rate{sum: now}
	case passed <= 0:
		return r
	}
	return rate{now, (now.value - r.sum.value) / passed, true}
}

// put hands over the values, counters as rates, and keeps the counters for the
// next time.
func (s *Source) put(sums *sums, put agent.Put) {
	rates := make(map[key]rate, len(s.rates))
	for _, k := range slices.SortedFunc(maps.Keys(sums.of), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.alloc, b.alloc), cmp.Compare(a.metric, b.metric))
	}) {
		now := sums.of[k]
		if !now.counter {
			put(k.alloc, k.metric, now.value)
			continue
		}
		r := s.rates[k].step(now)
		if rates[k] = r; r.known {
			put(k.alloc, k.metric, r.perSecond)
		}
	}
	s.rates = rates
}
