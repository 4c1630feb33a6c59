package controller

import (
	"testing"
	"time"

	"github.com/psgrid/psg"
)

// A wall clock that is set neither ends all reservations at once nor keeps
// them: what counts is how long they have been seen.
func TestDeadlines_OutliveAJumpOfTheWallClock(t *testing.T) {
	ends := start.Add(time.Minute)
	for jump, by := range map[string]time.Duration{"ahead": time.Hour, "back": -time.Hour, "none": 0} {
		d := newDeadlines(start)
		for _, one := range []struct {
			since time.Duration
			over  bool
		}{{0, false}, {time.Minute - 1, false}, {time.Minute, true}} {
			wall := start
			if one.since > 0 {
				wall = start.Add(by + one.since)
			}
			if over := d.passed("r", ends, wall, one.since); over != one.over {
				t.Errorf("%s: after %s over is %t", jump, one.since, over)
			}
		}
	}
}

func TestDeadlines_GoByWhatTheLedgerSaysNow(t *testing.T) {
	d := newDeadlines(start)
	if d.over("r", start.Add(time.Minute), start) || !d.over("r", start, start) || d.over("r", start.Add(time.Second), start) {
		t.Error("a time that the ledger has changed is not gone by")
	}
	d.keep(func(psg.RequestID) bool { return false })
	if len(d.of) > 0 {
		t.Errorf("%d are kept of those that are gone", len(d.of))
	}
}
