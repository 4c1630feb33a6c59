package heal

import (
	"math"
	"math/bits"
	"time"

	"github.com/psgrid/psg"
)

// phase is where an allocation stands; the package comment draws the edges.
type phase uint8

const (
	free phase = iota
	onTrial
	held
	pardoned
)

// When somebody suffers: most of the last few moods were bad. When they no
// longer do: all of them were good. Apart, so that one slow answer is neither.
const (
	moods     = 5
	badMoods  = 3
	moodsMask = 1<<moods - 1

	// Of an allocation without a probe, its own pressure in percent. In between
	// it says nothing.
	badPressure  = 40
	goodPressure = 15
)

// How fast use is followed: what is recent, and what is usual. Of what is new, it
// is usual to use nothing, which counts like as much time as newly.
const (
	recently = 200 * time.Millisecond
	usually  = 30 * time.Second
	newly    = 3 * time.Second
)

// state is what is known of one allocation.
type state struct {
	id   psg.AllocID
	seen time.Time

	recent    Amounts // NaN until measured
	usual     Amounts
	learned   time.Duration // that usual was followed for
	throttled float64

	moods   uint8 // a bit for each of the last few: bad; the newest lowest
	felt    int   // moods so far, up to moods
	feltAt  time.Time
	suffers bool

	phase   phase
	until   time.Time     // of a trial, hold or pardon
	trial   time.Duration // that the last one takes, once it is
	inForce bool          // the last hold is, or was: see Done
	hold    time.Duration // of the last one
	held    []time.Time   // when it was held, in the last Span
	victim  psg.AllocID   // for whom
}

// measure follows what an allocation uses.
func (s *state) measure(a *Alloc, passed time.Duration) {
	s.throttled = a.Throttled
	weight := share(passed, recently)
	for r, now := range a.Use {
		switch {
		case !known(now):
		case !known(s.recent[r]):
			s.recent[r] = now
		default:
			s.recent[r] += weight * (now - s.recent[r])
		}
	}
}

// learn follows what is usual: the mean of all the time at first, later one that
// fades.
func (s *state) learn(passed time.Duration) {
	s.learned += passed
	weight := min(1, float64(passed)/float64(min(newly+s.learned, usually)))
	for r, recent := range s.recent {
		if known(recent) {
			s.usual[r] += weight * (recent - s.usual[r])
		}
	}
}

// share is the weight of what is new after some time, where what is old fades
// with a time constant.
func share(passed, constant time.Duration) float64 {
	return 1 - math.Exp(-float64(passed)/float64(constant))
}

// known reports whether a value is a number at all.
func known(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// grown is how much more than usual an allocation uses, beyond what nobody may
// take from it.
func (s *state) grown(r int, floor float64) float64 {
	if !known(s.recent[r]) {
		return 0
	}
	return max(0, s.recent[r]-max(s.usual[r], floor))
}

// feel follows how a protected allocation is.
// One of whom nothing is heard, such as one whose port is closed, is not known to
// suffer.
func (s *state) feel(a *Alloc, charge psg.Charge, now time.Time) {
	quiet := silence
	switch {
	case charge.Probe != nil:
		quiet = max(quiet, 2*moods*charge.Probe.Interval)
		for _, took := range a.Probes {
			s.mood(took > charge.Probe.Objective, now)
		}
	case a.Pressure >= badPressure:
		s.mood(true, now)
	case a.Pressure <= goodPressure:
		s.mood(false, now)
	}
	if now.Sub(s.feltAt) > quiet {
		s.suffers, s.moods, s.felt = false, 0, 0
		return
	}
	bad := bits.OnesCount8(s.moods & moodsMask)
	if s.suffers {
		s.suffers = bad > 0 || s.felt < moods
	} else {
		s.suffers = bad >= badMoods
	}
}

func (s *state) mood(bad bool, now time.Time) {
	s.feltAt = now
	s.moods <<= 1
	if bad {
		s.moods |= 1
	}
	s.felt = min(s.felt+1, moods)
}

// growing is a time that is longer with each hold of the last Span, this one not
// counted, up to most.
func (s *state) growing(first, most time.Duration) time.Duration {
	before := len(s.held)
	if s.phase == onTrial {
		before--
	}
	for range before {
		first = min(longer*first, most)
	}
	return first
}
