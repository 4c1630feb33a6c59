package agent

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/telemetry"
)

// heard is what a reader of a Recorder's samples knows: last values by
// allocation, if any, and metric.
type heard struct {
	series map[psg.SeriesID]psg.Declared
	last   map[psg.SeriesID]float64
}

func newHeard() *heard {
	return &heard{map[psg.SeriesID]psg.Declared{}, map[psg.SeriesID]float64{}}
}

func (h *heard) fold(s psg.Sample) {
	for _, d := range s.Declared {
		h.series[d.ID] = d
	}
	for _, v := range s.Values {
		h.last[v.Series] = float64(v.Units) / float64(h.series[v.Series].Scale)
	}
	for _, id := range s.Gone {
		delete(h.series, id)
		delete(h.last, id)
	}
}

func (h *heard) value(alloc, metric string) (float64, bool) {
	for id, d := range h.series {
		if string(d.Alloc) == alloc && d.Metric == metric {
			v, ok := h.last[id]
			return v, ok
		}
	}
	return 0, false
}

func (h *heard) allocs() []string {
	var ids []string
	for _, d := range h.series {
		if d.Alloc != "" && !slices.Contains(ids, string(d.Alloc)) {
			ids = append(ids, string(d.Alloc))
		}
	}
	slices.Sort(ids)
	return ids
}

func TestCollector_RecordsAllocationsWhileTheyRun(t *testing.T) {
	n := newNode(t)
	n.unifiedTask("web")
	// Two tasks of one allocation, and one that gets no throttling.
	n.unifiedGroup("nomad.slice/reserve.slice/"+allocOf(0)+".side.scope", 7)
	recorder, err := telemetry.NewRecorder("node-1", telemetry.Config{})
	if err != nil {
		t.Fatal(err)
	}
	c := NewCollector(configOf(n), recorder)
	defer c.Close()
	got := newHeard()
	at := time.Unix(100, 0)
	observe := func() {
		at = at.Add(time.Second)
		c.Collect(at)
		got.fold(recorder.Cut(at))
	}
	observe()
	n.file(n.groups, "nomad.slice/share.slice/"+allocOf(0)+".web.scope/cpu.stat", "usage_usec 1500000\nnr_periods 20\nnr_throttled 3\n")
	n.file(n.groups, "nomad.slice/reserve.slice/"+allocOf(0)+".side.scope/cpu.stat", "usage_usec 1200000\nnr_periods 20\nnr_throttled 6\n")
	observe()
	if v, ok := got.value("", "memory_available_mb"); !ok || v != 1 {
		t.Errorf("available memory is recorded as %v", v)
	}
	for name, want := range map[string]float64{"cpu_percent": 70, "throttled_percent": 50, "memory_mb": 6, "working_set_mb": 4, "oom_kills": 4} {
		if v, ok := got.value(allocOf(0), name); !ok || v != want {
			t.Errorf("%s is recorded as %v, %v; want %v", name, v, ok, want)
		}
	}
	n.unifiedTask("other")
	if observe(); !slices.Equal(got.allocs(), []string{allocOf(0), allocOf(1)}) {
		t.Errorf("allocations are %v", got.allocs())
	}
	for _, dir := range []string{"share.slice/" + allocOf(0) + ".web.scope", "reserve.slice/" + allocOf(0) + ".side.scope"} {
		n.removeGroup("nomad.slice/" + dir)
	}
	if observe(); !slices.Equal(got.allocs(), []string{allocOf(1)}) {
		t.Errorf("allocations are %v after the first ended", got.allocs())
	}
	n.write("loadavg", "gone\n")
	if observe(); slices.ContainsFunc(slices.Collect(maps.Keys(got.last)), func(id psg.SeriesID) bool { return got.series[id].Metric == "load_1m" }) {
		t.Error("a load that cannot be read stays")
	}
}
