package telemetry

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/psgrid/psg"
)

const interval = 200 * time.Millisecond

// world is a node with a few metrics and allocations that come and go.
type world struct {
	rng   *rand.Rand
	r     *Recorder
	at    time.Time
	level []float64
	alive map[psg.AllocID]bool
	// put is every value of each of the node's metrics, with its time.
	put map[string][]observation
}

type observation struct {
	at    time.Time
	value float64
}

func newWorld(t testing.TB, seed uint64, metrics int) *world {
	return &world{
		rng: rand.New(rand.NewPCG(seed, 1)), r: newRecorder(t, Config{FullEvery: 20 * time.Second}), at: origin,
		level: make([]float64, metrics), alive: map[psg.AllocID]bool{}, put: map[string][]observation{},
	}
}

// step measures everything once and returns the sample.
func (w *world) step() psg.Sample {
	for i := range w.level {
		metric := fmt.Sprintf("m%d_percent", i)
		switch w.rng.IntN(10) {
		case 0:
			w.level[i] = 200*w.rng.Float64() - 50
		case 1, 2, 3:
			w.level[i] *= 1 + 0.1*w.rng.NormFloat64()
		}
		if i == 0 && w.rng.IntN(500) == 0 {
			w.r.Node(metric).Absent()
			continue
		}
		w.r.Node(metric).Put(w.at, w.level[i])
		w.put[metric] = append(w.put[metric], observation{w.at, math.Round(w.level[i]*10) / 10})
	}
	alloc := psg.AllocID(fmt.Sprintf("alloc-%d", w.rng.IntN(5)))
	switch {
	case !w.alive[alloc]:
		w.alive[alloc] = w.rng.IntN(50) == 0
	case w.rng.IntN(400) == 0:
		w.r.Forget(alloc)
		delete(w.alive, alloc)
	}
	for alloc := range w.alive {
		w.r.Alloc(alloc, "cpu_percent").Put(w.at, 100*w.rng.Float64())
		w.r.Alloc(alloc, "memory_mb").Put(w.at, 1000)
	}
	sample := w.r.Cut(w.at)
	w.at = w.at.Add(interval)
	return sample
}

func fold(t testing.TB, w *Windows, s psg.Sample) {
	t.Helper()
	if err := w.Fold(s, s.At); err != nil {
		t.Fatal(err)
	}
}

func observed(t testing.TB, w *Windows) psg.NodeObserved {
	t.Helper()
	seen, ok := w.Observed("n1")
	if !ok {
		t.Fatal("nothing is known of the node")
	}
	return seen
}

// TestWindows_AgreeWhateverOneOfThemMissed loses, repeats and reorders samples
// on the way to one reader. Once it has heard a full sample, the whole slots
// that trickle after it, and the end of the slot it is in, it says what a reader
// says that has heard everything in order; and what comes late changes nothing.
func TestWindows_AgreeWhateverOneOfThemMissed(t *testing.T) {
	for seed := range uint64(12) {
		node := newWorld(t, seed, 6)
		all, some := NewWindows(), NewWindows()
		rng := rand.New(rand.NewPCG(seed, 2))
		var late []psg.Sample
		for range 300 + rng.IntN(1800) {
			sample := node.step()
			fold(t, all, sample)
			switch rng.IntN(4) {
			case 0: // lost
			case 1:
				late = append(late, sample)
			default:
				fold(t, some, sample)
			}
			for len(late) > 0 && rng.IntN(3) == 0 {
				i := rng.IntN(len(late))
				fold(t, some, late[i])
				if rng.IntN(2) == 0 {
					late = slices.Delete(late, i, i+1)
				}
			}
		}
		full, mended := false, 0
		for mended < keptSlots+int(SlotSpan/interval) {
			sample := node.step()
			fold(t, all, sample)
			fold(t, some, sample)
			if full = full || sample.Full; full {
				mended++
			}
		}
		for _, sample := range late {
			fold(t, some, sample)
		}
		if diff := cmp.Diff(observed(t, all), observed(t, some)); diff != "" {
			t.Fatalf("seed %d (-heard all +heard some):\n%s", seed, diff)
		}
	}
}

// TestWindows_AreThoseOfAllValues compares with sorting every value.
func TestWindows_AreThoseOfAllValues(t *testing.T) {
	node := newWorld(t, 7, 8)
	w := NewWindows()
	for range 2000 {
		fold(t, w, node.step())
	}
	last := node.at.Add(-interval)
	open := time.Unix(last.Unix()/10*10, 0).UTC()
	seen := observed(t, w).Telemetry
	for i := 1; i < 8; i++ {
		metric := fmt.Sprintf("m%d_percent", i)
		got, ok := seen.Metrics[metric]
		if !ok || got.Over60s == nil || got.Over5m == nil {
			t.Fatalf("%s is %+v", metric, got)
		}
		values := node.put[metric]
		near(t, metric+" over 60 s", *got.Over60s, between(values, open.Add(-time.Minute), open))
		near(t, metric+" over 5 m", *got.Over5m, between(values, open.Add(-5*time.Minute), open))
		if want := values[len(values)-1].value; math.Abs(got.Last-want) > 0.1+0.005*math.Abs(want) {
			t.Errorf("%s: last is %v, want %v", metric, got.Last, want)
		}
	}
}

func between(all []observation, from, to time.Time) []float64 {
	var values []float64
	for _, o := range all {
		if !o.at.Before(from) && o.at.Before(to) {
			values = append(values, o.value)
		}
	}
	slices.Sort(values)
	return values
}

// near compares a summary with the sorted values it is of: means and maxima
// exactly, quantiles within the sketch's accuracy and half a tenth.
func near(t *testing.T, what string, got psg.Summary, sorted []float64) {
	t.Helper()
	sum := 0.0
	for _, v := range sorted {
		sum += v
	}
	if mean := sum / float64(len(sorted)); math.Abs(got.Mean-mean) > 0.011 || got.Max != sorted[len(sorted)-1] {
		t.Errorf("%s: mean %v and max %v, want %v and %v", what, got.Mean, got.Max, mean, sorted[len(sorted)-1])
	}
	for q, value := range map[float64]float64{0.5: got.P50, 0.95: got.P95, 0.99: got.P99} {
		low := sorted[int(q*float64(len(sorted)-1))]
		high := sorted[min(int(q*float64(len(sorted)-1))+1, len(sorted)-1)]
		if value < low-math.Abs(low)*accuracy-0.051 || value > high+math.Abs(high)*accuracy+0.051 {
			t.Errorf("%s: p%v is %v, want within 1 percent of %v", what, 100*q, value, low)
		}
	}
}

func TestWindows_TenSecondsAreThoseBeforeTheLatestSample(t *testing.T) {
	r, w := newRecorder(t, Config{}), NewWindows()
	s := r.Node("cpu_percent")
	at := origin
	run := func(value float64, samples int) psg.Stats {
		for range samples {
			s.Put(at, value)
			fold(t, w, r.Cut(at))
			at = at.Add(interval)
		}
		return observed(t, w).Telemetry.Metrics["cpu_percent"]
	}
	if got := run(10, 50); got.Mean != 10 || got.Over60s != nil {
		t.Errorf("got %+v in the first slot, want a mean of 10 and nothing longer", got)
	}
	got := run(90, 26) // half of the next slot
	if math.Abs(got.Mean-50) > 1 || got.Max != 90 || got.Last != 90 || got.P95 != 90 {
		t.Errorf("got %+v after 5 s at 10 and 5 s at 90", got)
	}
	if want := (psg.Summary{Mean: 10, Max: 10, P50: 10, P95: 10, P99: 10}); got.Over60s == nil || *got.Over60s != want {
		t.Errorf("over 60 s it is %+v, want the one whole slot", got.Over60s)
	}
	if got := run(90, 75); got.Mean != 90 {
		t.Errorf("mean is %v after 20 s at 90", got.Mean)
	}
}

func TestWindows_ForgetWhatIsNoLongerMeasured(t *testing.T) {
	r, w := newRecorder(t, Config{}), NewWindows()
	at := origin
	step := func(puts ...*Series) psg.Telemetry {
		for _, s := range puts {
			s.Put(at, 5)
		}
		fold(t, w, r.Cut(at))
		at = at.Add(time.Second)
		return observed(t, w).Telemetry
	}
	load, cpu := r.Node("load_1m"), r.Node("cpu_percent")
	one := r.Alloc("a1", "cpu_percent")
	if got := step(load, cpu, one); len(got.Metrics) != 2 || len(got.Allocs) != 1 || got.Allocs[0].Metrics["cpu_percent"].Last != 5 {
		t.Fatalf("got %+v", got)
	}
	load.Absent()
	r.Forget("a1")
	if got := step(cpu, one); len(got.Metrics) != 1 || len(got.Allocs) != 0 {
		t.Errorf("got %+v, want cpu_percent only", got)
	}
	if got := step(cpu, load, r.Alloc("a1", "cpu_percent")); len(got.Metrics) != 2 || len(got.Allocs) != 1 {
		t.Errorf("got %+v, want all of them back", got)
	}
	for range 10 * (maxQuiet + 1) {
		step(cpu)
	}
	if got := step(cpu); len(got.Metrics) != 1 || len(got.Allocs) != 0 {
		t.Errorf("got %+v after two minutes, want cpu_percent only", got)
	}
}

func TestWindows_UseOfAllocationsIsThatOfTheLastWholeSlot(t *testing.T) {
	r, w := newRecorder(t, Config{}), NewWindows()
	s := r.Alloc("a1", "cpu_percent")
	for i := range 61 { // six of the second slot in the first
		at := origin.Add(time.Duration(i) * interval)
		s.Put(at, float64(i))
		fold(t, w, r.Cut(at))
	}
	got := observed(t, w).Telemetry.Allocs[0].Metrics["cpu_percent"]
	if got.Mean != 24.5 || got.Max != 49 || got.P95 != 47 {
		t.Errorf("got %+v, want the mean, maximum and 95th percentile of 0 to 49", got)
	}
	if got.Last < 55 {
		t.Errorf("last is %v of 60: it is sent each second", got.Last)
	}
}

func TestRecorder_ASessionAfterTheClockWasSetBackTakesOver(t *testing.T) {
	r, w := newRecorder(t, Config{}), NewWindows()
	r.Node("cpu_percent").Put(origin, 1)
	first := r.Cut(origin)
	fold(t, w, first)
	earlier := origin.Add(-time.Hour)
	r.begin(earlier)
	r.Node("cpu_percent").Put(earlier, 2)
	second := r.Cut(earlier)
	fold(t, w, second)
	if second.Session <= first.Session || second.Sequence != 1 || !second.Full {
		t.Errorf("sample %d of session %d follows session %d", second.Sequence, second.Session, first.Session)
	}
	if got := observed(t, w).Telemetry; !got.At.Equal(earlier) || got.Metrics["cpu_percent"].Last != 2 {
		t.Errorf("got %+v, want what the later session says", got)
	}
}

func TestWindows_ALaterSessionTakesOver(t *testing.T) {
	w := NewWindows()
	sample := func(session, sequence uint64, value int64) psg.Sample {
		return psg.Sample{
			Node: "n1", Session: session, Sequence: sequence, At: origin, Full: sequence == 1,
			Declared: []psg.Declared{{ID: 1, Metric: "load_1m", Scale: 100}}, Values: []psg.Value{{Series: 1, Units: value}},
		}
	}
	last := func() float64 { return observed(t, w).Telemetry.Metrics["load_1m"].Last }
	fold(t, w, sample(5, 1, 100))
	fold(t, w, sample(6, 1, 200))
	fold(t, w, sample(5, 2, 300))
	if got := last(); got != 2 {
		t.Errorf("last is %v, want the later session's 2", got)
	}
	if err := w.Fold(sample(4, 1, 400), origin.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if got := last(); got != 4 {
		t.Errorf("last is %v, want 4: the other session has been silent", got)
	}
}

func TestWindows_TakeGivesWhatHasSpokenOnce(t *testing.T) {
	w := NewWindows()
	for _, id := range []psg.NodeID{"b", "a"} {
		r, err := NewRecorder(id, Config{})
		if err != nil {
			t.Fatal(err)
		}
		r.Node("load_1m").Put(origin, 1)
		fold(t, w, r.Cut(origin))
	}
	if got := w.Take(); len(got) != 2 || got[0].Node != "a" || got[1].Node != "b" {
		t.Errorf("took %+v, want a and b", got)
	}
	if got := w.Take(); len(got) != 0 {
		t.Errorf("took %+v again", got)
	}
	w.ForgetSilent(origin.Add(time.Second))
	if _, ok := w.Observed("a"); ok {
		t.Error("a node is known that has been silent for too long")
	}
}

func TestWindows_TellOnceThatANodeIsSilent(t *testing.T) {
	w := NewWindows()
	r := newRecorder(t, Config{})
	say := func(at time.Time) {
		r.Node("cpu_percent").Put(at, 95)
		fold(t, w, r.Cut(at))
	}
	say(origin)
	if got := w.Silent(origin); len(got) > 0 {
		t.Errorf("silent: %+v", got)
	}
	later := origin.Add(time.Second)
	got := w.Silent(later)
	if len(got) != 1 || got[0].Node != "n1" || !got[0].Telemetry.At.Equal(origin) || len(got[0].Telemetry.Metrics) > 0 || got[0].Projection != nil {
		t.Errorf("told %+v", got)
	}
	if again := w.Silent(later); len(again) > 0 {
		t.Errorf("told again: %+v", again)
	}
	w.Take()
	say(later)
	if back := w.Take(); len(back) != 1 || back[0].Telemetry.Metrics["cpu_percent"].Last != 95 {
		t.Errorf("it speaks again: %+v", back)
	}
	if got := w.Silent(later.Add(time.Second)); len(got) != 1 {
		t.Errorf("silent once more: %+v", got)
	}
}
