package telemetry

import (
	"testing"
	"time"

	"github.com/psgrid/psg"
)

// origin is the beginning of a slot.
var origin = time.Unix(1_800_000_000, 0).UTC()

func newRecorder(t testing.TB, config Config) *Recorder {
	t.Helper()
	r, err := NewRecorder("n1", config)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestCut_SendsOnlyWhatHasChanged(t *testing.T) {
	r := newRecorder(t, Config{})
	busy, memory := r.Node("cpu_percent"), r.Node("memory_used_mb")
	at := origin
	put := func(cpu, mb float64) psg.Sample {
		busy.Put(at, cpu)
		memory.Put(at, mb)
		sample := r.Cut(at)
		at = at.Add(200 * time.Millisecond)
		return sample
	}
	first := put(12.34, 1000)
	if !first.Full || len(first.Declared) != 2 || len(first.Values) != 2 || first.Values[0].Units != 123 {
		t.Fatalf("the first sample is %+v, want it full with 123 tenths of a percent", first)
	}
	if second := put(12.34, 1004); second.Full || len(second.Declared) != 0 || len(second.Values) != 0 {
		t.Errorf("got %+v though nothing has changed beyond the deadband", second)
	}
	third := put(12.5, 1006)
	if len(third.Values) != 2 || third.Values[1].Units != 1006 {
		t.Errorf("got %+v, want both values", third.Values)
	}
	if third.Sequence != 3 || third.Session != first.Session {
		t.Errorf("got number %d of session %d", third.Sequence, third.Session)
	}
}

func TestPut_AllocatesNothing(t *testing.T) {
	r := newRecorder(t, Config{})
	s := r.Node("cpu_percent")
	at, value := origin, 0.0
	fill := func() {
		value++
		s.Put(at, value)
	}
	for range 100 {
		fill()
	}
	at = at.Add(SlotSpan)
	fill()
	if n := testing.AllocsPerRun(80, fill); n != 0 {
		t.Errorf("%v allocations a Put", n)
	}
}

func TestForget_KeepsNothingOfASeries(t *testing.T) {
	r := newRecorder(t, Config{})
	s := r.Node("load_1m")
	s.Put(origin, 1)
	s.Forget()
	s.Put(origin, 2)
	s.Forget()
	if len(r.handles) != 0 || len(r.series) != 0 {
		t.Errorf("kept: %v, %v", r.handles, r.series)
	}
	if again := r.Node("load_1m"); again == s {
		t.Error("the same series again, which counts for nothing")
	}
}

// TestInventory_IsToldInFullSamplesAndWhenItChanges: a reader that missed samples,
// or hears them in disorder, ends with the last one that was told.
func TestInventory_IsToldInFullSamplesAndWhenItChanges(t *testing.T) {
	r, w := newRecorder(t, Config{}), NewWindows()
	at := origin
	cut := func() psg.Sample {
		r.Node("load_1m").Put(at, 1)
		sample := r.Cut(at)
		at = at.Add(200 * time.Millisecond)
		return sample
	}
	card := func(healthy bool) []psg.Device { return []psg.Device{{ID: "GPU-a", Healthy: healthy}} }
	if first := cut(); first.Inventory != nil {
		t.Errorf("told %+v before anything was known", first.Inventory)
	}
	r.PutDevices(card(true))
	told := cut()
	r.PutDevices(card(true))
	if again := cut(); told.Inventory == nil || again.Inventory != nil {
		t.Errorf("told %+v, and unchanged %+v", told.Inventory, again.Inventory)
	}
	r.PutDevices(card(false))
	changed := cut()
	r.Resync()
	full := cut()
	for _, sample := range []psg.Sample{full, changed, told, changed} {
		fold(t, w, sample)
	}
	if got := observed(t, w).Inventory; got == nil || len(got.Devices) != 1 || got.Devices[0].Healthy {
		t.Errorf("known are %+v", got)
	}
	r.PutDevices(nil)
	fold(t, w, cut())
	if got := observed(t, w).Inventory; got == nil || len(got.Devices) > 0 {
		t.Errorf("after the card is gone: %+v", got)
	}
}
