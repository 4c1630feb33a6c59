package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// node is a proc file system in a directory.
type node struct {
	t          testing.TB
	dir        string
	busy, idle int
}

func newNode(t testing.TB) *node {
	n := &node{t: t, dir: t.TempDir()}
	if err := os.Mkdir(filepath.Join(n.dir, "pressure"), 0o755); err != nil {
		t.Fatal(err)
	}
	n.spend(1000, 1000)
	n.write("meminfo", "MemTotal:       4096 kB\nMemFree:  0 kB\nMemAvailable:   1024 kB\n")
	n.write("loadavg", "1.50 1.00 0.50 1/2 3\n")
	for _, resource := range []string{"cpu", "memory", "io"} {
		n.write("pressure/"+resource, "some avg10=2.50 avg60=0.00 avg300=0.00 total=0\n")
	}
	return n
}

func (n *node) write(path, text string) {
	n.t.Helper()
	if err := os.WriteFile(filepath.Join(n.dir, path), []byte(text), 0o644); err != nil {
		n.t.Fatal(err)
	}
}

// spend lets CPU time pass, in ticks.
func (n *node) spend(busy, idle int) {
	n.t.Helper()
	n.busy += busy
	n.idle += idle
	n.write("stat", fmt.Sprintf("cpu  %d 0 0 %d 0 0 0 0 0 0\n", n.busy, n.idle))
}

func (n *node) remove(path string) {
	n.t.Helper()
	if err := os.Remove(filepath.Join(n.dir, path)); err != nil {
		n.t.Fatal(err)
	}
}

func collectorOf(t testing.TB, n *node, log *slog.Logger) *Collector {
	c := NewCollector(n.dir, 10*time.Second, 200*time.Millisecond, log)
	t.Cleanup(c.Close)
	return c
}

func TestCollector_MeasuresEveryMetric(t *testing.T) {
	n := newNode(t)
	c := collectorOf(t, n, slog.New(slog.DiscardHandler))
	at := time.Unix(100, 0)
	c.Collect(at)
	if _, ok := c.Last("cpu_percent"); ok {
		t.Error("CPU use is known after one reading")
	}
	n.spend(30, 10)
	at = at.Add(200 * time.Millisecond)
	c.Collect(at)

	got := c.Telemetry(at)
	want := map[string]float64{
		"cpu_percent": 75, "cpu_steal_percent": 0,
		"memory_used_mb": 3, "memory_available_mb": 1,
		"load_1m":                            1.5,
		"pressure_cpu_some_avg10_percent":    2.5,
		"pressure_memory_some_avg10_percent": 2.5,
		"pressure_io_some_avg10_percent":     2.5,
	}
	if !got.At.Equal(at) || len(got.Metrics) != len(want) {
		t.Errorf("at %v: %d metrics, want %d", got.At, len(got.Metrics), len(want))
	}
	for name, value := range want {
		if s := got.Metrics[name]; s.Last != value || s.Mean != value || s.P99 != value {
			t.Errorf("%s is %+v, want %v", name, s, value)
		}
	}
}

func TestCollector_FailingSourceIsReportedOnceAndLeftAlone(t *testing.T) {
	n := newNode(t)
	n.remove("pressure/io")
	var logged bytes.Buffer
	c := collectorOf(t, n, slog.New(slog.NewTextHandler(&logged, nil)))
	at := time.Unix(100, 0)
	for range 50 {
		c.Collect(at)
		at = at.Add(200 * time.Millisecond)
	}
	if got := strings.Count(logged.String(), "cannot be read"); got != 1 {
		t.Errorf("reported %d times:\n%s", got, &logged)
	}
	broken := c.Readings()[5]
	if broken.Path != "pressure/io" || !errors.Is(broken.Err, fs.ErrNotExist) {
		t.Errorf("reading is %+v", broken)
	}
	if _, ok := c.Telemetry(at).Metrics["pressure_io_some_avg10_percent"]; ok {
		t.Error("a metric that cannot be read has a value")
	}

	// It failed at 0, 1, 3 and 7 s; the next try is at 15 s.
	n.write("pressure/io", "some avg10=9.00 \n")
	c.Collect(time.Unix(114, 900_000_000))
	if _, ok := c.Last("pressure_io_some_avg10_percent"); ok {
		t.Error("the source was tried before its time")
	}
	c.Collect(time.Unix(115, 100_000_000))
	if v, ok := c.Last("pressure_io_some_avg10_percent"); !ok || v != 9 {
		t.Errorf("recovered source gives %v, %v", v, ok)
	}
	if !strings.Contains(logged.String(), "can be read again") {
		t.Errorf("recovery is not logged:\n%s", &logged)
	}
}

func TestCollector_ForgetsWhatItCanNoLongerRead(t *testing.T) {
	n := newNode(t)
	c := collectorOf(t, n, slog.New(slog.DiscardHandler))
	at := time.Unix(100, 0)
	c.Collect(at)
	n.write("loadavg", "gone\n")
	c.Collect(at.Add(time.Second))
	if _, ok := c.Last("load_1m"); ok {
		t.Error("an old value stays after a failure")
	}
	failing := slices.IndexFunc(c.Readings(), func(r Reading) bool { return r.Err != nil })
	if failing < 0 || !strings.Contains(c.Readings()[failing].Err.Error(), "loadavg: no load average") {
		t.Errorf("readings: %+v", c.Readings())
	}
}

func TestCollect_AllocatesNothing(t *testing.T) {
	n := newNode(t)
	c := collectorOf(t, n, slog.New(slog.DiscardHandler))
	at := time.Unix(100, 0)
	busy := 0
	allocs := testing.AllocsPerRun(200, func() {
		at = at.Add(200 * time.Millisecond)
		busy++
		c.Collect(at)
	})
	if allocs != 0 {
		t.Errorf("%v allocations per collection", allocs)
	}
}

// BenchmarkCollect measures this machine's own proc file system.
func BenchmarkCollect(b *testing.B) {
	c := NewCollector("/proc", 10*time.Second, 200*time.Millisecond, slog.New(slog.DiscardHandler))
	defer c.Close()
	at := time.Now()
	b.Run("collect", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			at = at.Add(200 * time.Millisecond)
			c.Collect(at)
		}
	})
	b.Run("summarise", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c.Telemetry(at)
		}
	})
}
