package agent

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

// TestWindow_MatchesSortingEverything compares the window with the plain way:
// keep all values, cut off the old ones, sort.
func TestWindow_MatchesSortingEverything(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const span, samples = 10 * time.Second, 51
	w := newWindow(span, samples)
	type sample struct {
		at    time.Time
		value float64
	}
	var all []sample
	now := time.Unix(0, 0)
	for range 5000 {
		now = now.Add(time.Duration(rng.Int64N(int64(400 * time.Millisecond))))
		value := float64(rng.IntN(20))
		all = append(all, sample{now, value})
		w.push(now, value)

		all = slices.DeleteFunc(all, func(s sample) bool { return now.Sub(s.at) >= span })
		all = all[max(0, len(all)-samples):]
		var values []float64
		sum := 0.0
		for _, s := range all {
			values = append(values, s.value)
			sum += s.value
		}
		slices.Sort(values)
		rank := func(q float64) float64 { return values[int(math.Ceil(q*float64(len(values))))-1] }
		want := psg.Stats{
			Last: value, Mean: sum / float64(len(values)), Max: values[len(values)-1],
			P50: rank(0.50), P95: rank(0.95), P99: rank(0.99),
		}
		if got := w.stats(); got != want {
			t.Fatalf("at %v: got %+v, want %+v", now, got, want)
		}
	}
}

func TestWindow_ForgetsAfterGap(t *testing.T) {
	w := newWindow(10*time.Second, 51)
	start := time.Unix(0, 0)
	w.push(start, 100)
	w.push(start.Add(9*time.Second), 1)
	if got := w.stats().Max; got != 100 {
		t.Errorf("max %v within the span, want 100", got)
	}
	w.push(start.Add(10*time.Second), 2)
	if got := w.stats(); got.Max != 2 || got.Mean != 1.5 {
		t.Errorf("got %+v, want what is younger than 10 s only", got)
	}
}
