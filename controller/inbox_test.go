package controller

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/psgrid/psg"
)

func TestInbox_RoomWakesAllThatWaitForIt(t *testing.T) {
	for name, makeRoom := range map[string]func(*inbox){
		"taken":  func(b *inbox) { b.take(10) },
		"closed": func(b *inbox) { b.close(psg.ErrNotLeader) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newInbox(10)
				for range 10 {
					if err := b.submit(psg.NodeGone{Node: "n"}); err != nil {
						t.Fatal(err)
					}
				}
				var done atomic.Int32
				for range 3 {
					go func() {
						if err := b.report(t.Context(), []psg.Delta{psg.NodeGone{Node: "n"}}); err == nil {
							done.Add(1)
						}
					}()
				}
				synctest.Wait()
				makeRoom(b)
				synctest.Wait()
				if n := done.Load(); n != 3 {
					t.Errorf("%d of 3 watchers went on", n)
				}
			})
		})
	}
}

func TestInbox_AsksHaveTheirTurnBetweenOtherRequests(t *testing.T) {
	b := newInbox(10)
	for range 3 {
		if err := errors.Join(b.preempt(&preempt{}), b.resize(&resize{})); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 8 {
		taken := b.take(10)
		if own := len(taken.resizes) > 0 || taken.preempt != nil; own != (i%2 == 0) {
			t.Errorf("batch %d: %d resizes, preemption %v", i, len(taken.resizes), taken.preempt != nil)
		}
	}
	if taken := b.take(10); len(taken.resizes) > 0 || taken.preempt != nil || len(b.preempts) > 0 {
		t.Errorf("left over: %+v", taken)
	}
}

// TestInbox_ForgetsWhatIsOfTheLeadBefore: whoever was cut off in the middle of a move
// reports its end all the same.
func TestInbox_ForgetsWhatIsOfTheLeadBefore(t *testing.T) {
	b := newInbox(2)
	report := func() {
		t.Helper()
		if err := b.report(t.Context(), []psg.Delta{psg.Moved{Ask: "a", State: psg.Running}}); err != nil {
			t.Fatal(err)
		}
	}
	report()
	b.open() // the epoch alone is new
	if taken := b.take(10); len(taken.deltas) != 1 {
		t.Errorf("took %v, want what was reported", taken.deltas)
	}
	b.close(psg.ErrNotLeader)
	report()
	b.open()
	if taken := b.take(10); len(taken.deltas) != 0 {
		t.Errorf("took %v of the lead before", taken.deltas)
	}
	report()
	if taken := b.take(10); len(taken.deltas) != 1 {
		t.Errorf("took %v, want what was reported since", taken.deltas)
	}
}
