package telemetry

import (
	"errors"
	"testing"

	"github.com/psgrid/psg"
)

// FuzzSlot: bytes either are an error, or the distributions of a slot, which
// encode to the same again and merge into a window that is ordered.
func FuzzSlot(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{1, 2, 20})
	f.Add([]byte{1, 5, 20, 30, 0, 2, 3, 1, 1, 1, 0, 3, 2, 2})
	node := newWorld(f, 3, 4)
	for range 60 {
		for _, slot := range node.step().Slots {
			f.Add(slot.Data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var again []byte
		before := psg.SeriesID(0)
		m := newMerge()
		c := cursor{data: data}
		for c.next() {
			again = c.at.append(again, before)
			before = c.at.series
			m.reset()
			m.add(&c.at, 1)
			if s := m.summary(1); s.P50 > s.P95 || s.P95 > s.P99 || s.P99 > s.Max {
				t.Fatalf("%+v comes to %+v", c.at, s)
			}
		}
		if c.err != nil {
			if !errors.Is(c.err, psg.ErrInvalid) {
				t.Fatalf("not marked invalid: %v", c.err)
			}
			return
		}
		if err := checkSlot(again); err != nil || len(again) > len(data) {
			t.Fatalf("%v: %x encodes to %x", err, data, again)
		}
	})
}
