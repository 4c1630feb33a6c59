package agent

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"
)

func collectorOf(t testing.TB, n *node, log *slog.Logger) *Collector {
	config := configOf(n)
	config.Log = log
	c := NewCollector(config, nil)
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
	n.progress()
	at = at.Add(time.Second)
	c.Collect(at)

	want := map[string]float64{
		"cpu_percent": 75, "cpu_steal_percent": 0, "cpu_iowait_percent": 0,
		"memory_used_mb": 3, "memory_available_mb": 1, "swap_used_mb": 2,
		"load_1m":                            1.5,
		"pressure_cpu_some_avg10_percent":    2.5,
		"pressure_memory_some_avg10_percent": 2.5,
		"pressure_io_some_avg10_percent":     2.5,
		"pressure_cpu_some_percent":          50, "pressure_cpu_full_percent": 25,
		"pressure_memory_some_percent": 50, "pressure_memory_full_percent": 25,
		"pressure_io_some_percent": 50, "pressure_io_full_percent": 25,
		"tcp_retransmits_per_s": 2, "tcp_retransmits_percent": 10,
		"tcp_lost_retransmits_per_s": 1, "tcp_timeouts_per_s": 3, "tcp_listen_drops_per_s": 5,
	}
	for name, value := range map[string]float64{"read_mbps": 4, "write_mbps": 1, "read_iops": 8, "write_iops": 2, "latency_ms": 5, "busy_percent": 50} {
		want["disk_"+name], want["disk/nvme0n1/"+name], want["disk/dm-0/"+name] = value, value, value
	}
	for name, value := range map[string]float64{"received_mbits": 8, "sent_mbits": 16, "errors_per_s": 3, "drops_per_s": 7} {
		want["network_"+name], want["network/eth0/"+name] = value, value
	}
	for _, m := range c.metrics {
		value, ok := want[m.name]
		if !ok {
			t.Errorf("there is a metric %s, too", m.name)
		}
		if m.value != value || !m.set {
			t.Errorf("%s is %v, want %v", m.name, m.value, value)
		}
		delete(want, m.name)
	}
	for name := range want {
		t.Errorf("there is no %s", name)
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
	if _, ok := c.Last("pressure_io_some_avg10_percent"); ok {
		t.Error("a metric that cannot be read has a value")
	}

	// It failed at 0, 1, 3 and 7 s; the next try is at 15 s.
	n.write("pressure/io", "some avg10=9.00 total=0\n")
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
	if _, ok := c.Last("load_1m"); !ok {
		t.Fatal("no load")
	}
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
	for range 5 {
		n.unifiedTask("web")
	}
	c := collectorOf(t, n, slog.New(slog.DiscardHandler))
	at := time.Unix(100, 0)
	allocs := testing.AllocsPerRun(200, func() {
		at = at.Add(200 * time.Millisecond)
		c.Collect(at)
	})
	if len(c.Uses()) != 5 {
		t.Fatalf("%d tasks are measured, want 5", len(c.Uses()))
	}
	if allocs != 0 {
		t.Errorf("%v allocations per collection", allocs)
	}
}

// BenchmarkCollect measures this machine's own files.
func BenchmarkCollect(b *testing.B) {
	c := NewCollector(Config{Log: slog.New(slog.DiscardHandler)}, nil)
	defer c.Close()
	at := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		at = at.Add(200 * time.Millisecond)
		c.Collect(at)
	}
}
