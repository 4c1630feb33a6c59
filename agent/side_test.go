package agent

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/telemetry"
)

// card is a Source of one value that fails when it is told to.
type card struct {
	mu     sync.Mutex
	value  float64
	hidden bool
	failed error
}

func (c *card) Name() string         { return "card" }
func (c *card) Every() time.Duration { return time.Second }

func (c *card) Measure(_ context.Context, put Put) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	put("", "gpu/0/power_watts", math.NaN())
	put("", "gpu/0/busy_percent", c.value)
	if !c.hidden {
		put(psg.AllocID(allocOf(0)), "gpu_memory_mb", 512)
		put("nobody", "gpu_memory_mb", 512)
	}
	return c.failed
}

func (c *card) Devices() ([]psg.Device, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return []psg.Device{{ID: "GPU-0", Healthy: c.failed == nil}}, true
}

func (c *card) set(value float64, hidden bool, failed error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.value, c.hidden, c.failed = value, hidden, failed
}

func TestSource_IsMeasuredBesideTheKernelsFiles(t *testing.T) {
	n := newNode(t)
	n.unifiedTask("web")
	recorder, err := telemetry.NewRecorder("node-1", telemetry.Config{})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var logged strings.Builder
		source := &card{value: 40}
		stuck := stuckSource{}
		config := configOf(n)
		config.Sources, config.Log = []Source{stuck, source}, slog.New(slog.NewTextHandler(&logged, nil))
		c := NewCollector(config, recorder)
		defer c.Close()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { c.RunSources(ctx); close(ended) }()
		got := newHeard()
		var told []bool // whether the device was well, each time that it was told
		observe := func() {
			pass(time.Second)
			c.Collect(time.Now())
			sample := recorder.Cut(time.Now())
			got.fold(sample)
			if sample.Inventory != nil {
				told = append(told, sample.Inventory.Devices[0].Healthy)
			}
		}
		observe()
		if v, ok := c.Last("gpu/0/busy_percent"); !ok || v != 40 {
			t.Errorf("busy is %v, %v", v, ok)
		}
		if v, ok := got.value(allocOf(0), "gpu_memory_mb"); !ok || v != 512 {
			t.Errorf("the allocation's memory is %v, %v", v, ok)
		}
		if _, ok := got.value("nobody", "gpu_memory_mb"); ok {
			t.Error("an allocation is recorded that does not run here")
		}
		if r := c.Readings(); r[len(r)-1].Path != "card" || strings.Join(r[len(r)-1].Metrics, " ") != "gpu/0/busy_percent" {
			t.Errorf("its reading is %+v", r[len(r)-1])
		}
		source.set(50, true, nil)
		observe()
		if _, ok := got.value(allocOf(0), "gpu_memory_mb"); ok {
			t.Error("a value stays that the source no longer puts")
		}
		source.set(50, false, errors.New("fell off the bus"))
		for range 20 {
			observe()
		}
		if _, ok := c.Last("gpu/0/busy_percent"); ok || c.Readings()[len(c.Readings())-1].Err == nil {
			t.Error("a value stays after a failure")
		}
		source.set(60, false, nil)
		for range 60 {
			observe()
		}
		if v, ok := c.Last("gpu/0/busy_percent"); !ok || v != 60 {
			t.Errorf("busy is %v, %v after the source came back", v, ok)
		}
		cancel()
		<-ended
		if told = slices.Compact(told); !slices.Equal(told, []bool{true, false, true}) {
			t.Errorf("the device was told to be well: %v", told)
		}
		if text := logged.String(); strings.Count(text, "fell off the bus") != 1 || strings.Count(text, "read again") != 1 {
			t.Errorf("logged\n%s", text)
		}
	})
}

// stuckSource hangs until the agent ends.
type stuckSource struct{}

func (stuckSource) Name() string         { return "stuck" }
func (stuckSource) Every() time.Duration { return time.Second }
func (stuckSource) Measure(ctx context.Context, _ Put) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestSource_OfNamesThatChange: what a source no longer puts is kept nowhere.
func TestSource_OfNamesThatChange(t *testing.T) {
	n := newNode(t)
	n.unifiedTask("web")
	recorder, err := telemetry.NewRecorder("node-1", telemetry.Config{})
	if err != nil {
		t.Fatal(err)
	}
	config := configOf(n)
	s := &side{source: stuckSource{}, log: config.Log}
	c := NewCollector(config, recorder)
	defer c.Close()
	c.sides = []*side{s}
	at := time.Unix(100, 0)
	c.Collect(at)
	at = at.Add(time.Second)
	c.Collect(at)
	recorded := func() (names []string) {
		for series := range recorder.All() {
			if _, metric := series.Name(); strings.HasPrefix(metric, "x") {
				names = append(names, metric)
			}
		}
		return names
	}
	own := len(c.metrics)
	for i := range 100 {
		name := "x" + strings.Repeat("y", i)
		s.values = []sideValue{{"", name, 1}, {psg.AllocID(allocOf(0)), name, 1}}
		s.fresh = true
		at = at.Add(time.Second)
		c.Collect(at)
		if v, ok := c.Last(name); !ok || v != 1 {
			t.Fatalf("%s is %v, %t", name, v, ok)
		}
	}
	if len(c.metrics) != own || len(c.beside) != 1 || len(recorded()) != 2 {
		t.Errorf("%d and %d metrics are kept, and recorded %q", len(c.metrics)-own, len(c.beside), recorded())
	}
}
