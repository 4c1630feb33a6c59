package telemetry

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

// hostileSample is a full one of some series, each with one value.
func hostileSample(sequence uint64, series int, units int64) psg.Sample {
	s := psg.Sample{Node: "n1", Session: 1, Sequence: sequence, At: origin, Full: sequence == 1}
	for id := range psg.SeriesID(series) {
		if s.Full {
			s.Declared = append(s.Declared, psg.Declared{ID: id + 1, Metric: string(rune('a' + id)), Scale: 1})
		}
		s.Values = append(s.Values, psg.Value{Series: id + 1, Units: units})
	}
	return s
}

// TestWindows_OneNodeCannotFillMemory sends a slot that never ends, in which
// everything changes with each sample, and then others like it.
func TestWindows_OneNodeCannotFillMemory(t *testing.T) {
	const series, samples = 400, 1000
	w := NewWindows()
	last := int64(0)
	for slot := range 2 {
		for i := range samples {
			s := hostileSample(uint64(slot*samples+i+1), series, int64(i%7+slot))
			s.At = origin.Add(time.Duration(slot) * SlotSpan)
			fold(t, w, s)
			last = s.Values[0].Units
		}
	}
	kept := 0
	for _, s := range w.nodes["n1"].own {
		kept += len(s.changes)
	}
	if kept > maxHeard+series {
		t.Errorf("%d values are kept", kept)
	}
	fold(t, w, psg.Sample{Node: "n1", Session: 1, Sequence: 2*samples + 1, At: origin.Add(2 * SlotSpan)})
	room := 0
	for _, s := range w.nodes["n1"].own {
		room += cap(s.changes)
	}
	if room > series*usualChanges {
		t.Errorf("room for %d values is kept in a slot with none", room)
	}
	if got := observed(t, w).Telemetry.Metrics["a"].Last; got != float64(last) {
		t.Errorf("last %v, want %d: the newest counts, whatever was dropped", got, last)
	}
}

func TestFold_RefusesWhatNoRecorderSays(t *testing.T) {
	good := hostileSample(1, 2, 5)
	for name, spoil := range map[string]func(*psg.Sample){
		"no node":        func(s *psg.Sample) { s.Node = "" },
		"sequence":       func(s *psg.Sample) { s.Sequence = math.MaxUint64 },
		"no time":        func(s *psg.Sample) { s.At = time.Time{} },
		"scale":          func(s *psg.Sample) { s.Declared[0].Scale = 0 },
		"value":          func(s *psg.Sample) { s.Values[0].Units = math.MinInt64 },
		"use":            func(s *psg.Sample) { s.Uses = []psg.UseValue{{Series: 1, P95: math.MaxInt64}} },
		"use below":      func(s *psg.Sample) { s.Uses = []psg.UseValue{{Series: 1, Mean: math.MinInt64}} },
		"forecast":       func(s *psg.Sample) { s.Forecasts = []psg.Forecast{{Series: 1, Mean: -1}} },
		"upper":          func(s *psg.Sample) { s.Forecasts = []psg.Forecast{{Series: 1, Upper: math.MaxInt64}} },
		"slot to come":   func(s *psg.Sample) { s.Slots = []psg.Slot{{Number: math.MaxInt64}} },
		"slot's bytes":   func(s *psg.Sample) { s.Slots = []psg.Slot{{Data: []byte{255}}} },
		"many slots":     func(s *psg.Sample) { s.Slots = make([]psg.Slot, keptSlots+1) },
		"many of a kind": func(s *psg.Sample) { s.Gone = make([]psg.SeriesID, maxSeries+1) },
		"far ahead":      func(s *psg.Sample) { s.At = s.At.Add(maxAhead + time.Second) },
		"many devices":   func(s *psg.Sample) { s.Inventory = &psg.Inventory{Devices: make([]psg.Device, maxDevices+1)} },
		"same device": func(s *psg.Sample) {
			s.Inventory = &psg.Inventory{Devices: []psg.Device{{ID: "GPU-a"}, {ID: "GPU-a"}}}
		},
		"device's memory": func(s *psg.Sample) {
			s.Inventory = &psg.Inventory{Devices: []psg.Device{{ID: "GPU-a", MemoryMB: -1}}}
		},
		"long attribute": func(s *psg.Sample) {
			long := map[string]string{"health": strings.Repeat("x", maxName+1)}
			s.Inventory = &psg.Inventory{Devices: []psg.Device{{ID: "GPU-a", Attributes: long}}}
		},
	} {
		s := hostileSample(1, 2, 5)
		spoil(&s)
		w := NewWindows()
		if err := w.Fold(s, good.At); !errors.Is(err, psg.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
		if len(w.nodes) > 0 {
			t.Errorf("%s: some of it was folded", name)
		}
		if w.Refused() != 1 {
			t.Errorf("%s: %d are counted", name, w.Refused())
		}
	}
	w := NewWindows()
	fold(t, w, good)
}

// TestFold_ASampleOfTheFarFutureStallsNothing: one that is dated years ahead must
// not keep what follows out of the windows.
func TestFold_ASampleOfTheFarFutureStallsNothing(t *testing.T) {
	w := NewWindows()
	fold(t, w, hostileSample(1, 1, 5))
	future := hostileSample(2, 1, 900)
	future.At = origin.Add(10 * 365 * 24 * time.Hour)
	if err := w.Fold(future, origin.Add(time.Second)); !errors.Is(err, psg.ErrInvalid) {
		t.Errorf("a sample of the far future: %v", err)
	}
	for i := range 100 {
		s := hostileSample(uint64(i+3), 1, int64(i))
		s.At = origin.Add(time.Duration(i) * SlotSpan)
		fold(t, w, s)
	}
	if got := observed(t, w).Telemetry.Metrics["a"]; got.Last != 99 || got.Max != 99 {
		t.Errorf("the last is %v, at most %v in 10 s: want 99", got.Last, got.Max)
	}
}
