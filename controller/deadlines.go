package controller

import (
	"maps"
	"time"

	"github.com/psgrid/psg"
)

// deadlines are when what the ledger gives a time is over, by the clock of this
// process that nobody sets: the ledger's times are some leader's wall clock, and
// when that jumps all would be over at once. A new leader begins anew, with its
// wall clock.
type deadlines struct {
	began time.Time // what passed is counted from
	of    map[psg.RequestID]deadline
}

type deadline struct {
	written time.Time     // what the ledger says
	after   time.Duration // since began
}

func newDeadlines(now time.Time) deadlines { return deadlines{now, map[psg.RequestID]deadline{}} }

// over reports whether the time that the ledger gives an ask is over.
func (d deadlines) over(id psg.RequestID, written, now time.Time) bool {
	return d.passed(id, written, now, now.Sub(d.began)) // by the clock that nobody sets, if now has it
}

func (d deadlines) passed(id psg.RequestID, written, now time.Time, since time.Duration) bool {
	known, seen := d.of[id]
	if !seen || !known.written.Equal(written) {
		known = deadline{written, since + written.Sub(now)}
		d.of[id] = known
	}
	return since >= known.after
}

// keep forgets all but those that live.
func (d deadlines) keep(live func(psg.RequestID) bool) {
	maps.DeleteFunc(d.of, func(id psg.RequestID, _ deadline) bool { return !live(id) })
}
