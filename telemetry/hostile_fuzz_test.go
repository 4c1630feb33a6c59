package telemetry

import (
	"math"
	"testing"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/wire"
)

// FuzzFold: whatever a node says, in any order and as often as it likes, readers
// get numbers, or an error.
func FuzzFold(f *testing.F) {
	node := newWorld(f, 5, 3)
	var before []byte
	for i := range 200 {
		data, err := wire.EncodeSample(node.step())
		if err != nil {
			f.Fatal(err)
		}
		if i%40 < 2 {
			f.Add(data, before)
		}
		before = data
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		w := NewWindows()
		for i, data := range [][]byte{first, second, first} {
			sample, err := wire.DecodeSample("n1", data)
			if err == nil {
				_ = w.Fold(sample, origin.Add(time.Duration(i)*time.Minute)) // an error is an answer
			}
			for _, seen := range w.Take() {
				finite(t, seen)
			}
		}
	})
}

func finite(t *testing.T, seen psg.NodeObserved) {
	t.Helper()
	check := func(name string, numbers ...float64) {
		for _, v := range numbers {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				t.Fatalf("%s: %v", name, numbers)
			}
		}
	}
	for name, s := range seen.Telemetry.Metrics {
		check(name, s.Last, s.Mean, s.Max, s.P50, s.P95, s.P99)
		for _, longer := range []*psg.Summary{s.Over60s, s.Over5m} {
			if longer != nil {
				check(name, longer.Mean, longer.Max, longer.P50, longer.P95, longer.P99)
			}
		}
	}
	for _, a := range seen.Telemetry.Allocs {
		for name, u := range a.Metrics {
			check(name, u.Last, u.Mean, u.Max, u.P95)
		}
	}
	for _, p := range []*psg.Projection{seen.Projection} {
		if p != nil && (p.Mean.Validate() != nil || p.Upper.Validate() != nil) {
			t.Fatalf("projection %+v", p)
		}
	}
}
