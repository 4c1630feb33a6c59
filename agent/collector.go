package agent

import (
	"log/slog"
	"time"

	"github.com/psgrid/psg"
)

// Collector reads a node's proc file system and keeps statistics over a window.
// It keeps the files open and allocates nothing per collection. It is for one
// goroutine.
type Collector struct {
	log     *slog.Logger
	sources []*source
	buffer  []byte
	uses    []Use
}

// NewCollector returns a collector of the files below proc, whose windows have
// room for one collection per interval.
func NewCollector(proc string, window, interval time.Duration, log *slog.Logger) *Collector {
	c := &Collector{log: log, buffer: make([]byte, 4096)}
	add := func(path string, parse parser, metrics ...string) {
		s := &source{proc: proc, path: path, parse: parse, metrics: metrics, values: make([]float64, len(metrics))}
		for range metrics {
			s.windows = append(s.windows, newWindow(window, int(window/interval)+1))
		}
		c.sources = append(c.sources, s)
	}
	add("stat", new(cpuTimes).parse, "cpu_percent", "cpu_steal_percent")
	add("meminfo", parseMemory, "memory_used_mb", "memory_available_mb")
	add("loadavg", parseLoad, "load_1m")
	add("pressure/cpu", parsePressure, "pressure_cpu_some_avg10_percent")
	add("pressure/memory", parsePressure, "pressure_memory_some_avg10_percent")
	add("pressure/io", parsePressure, "pressure_io_some_avg10_percent")
	return c
}

// Collect reads every source that is due. A source that fails is logged once,
// forgets its window, and is left alone for a while that doubles up to a minute.
func (c *Collector) Collect(now time.Time) {
	for _, s := range c.sources {
		if now.Before(s.retryAt) {
			continue
		}
		was := s.err
		s.collect(now, c.buffer)
		switch {
		case s.err != nil && was == nil:
			c.log.Warn("telemetry source cannot be read", "source", s.path, "error", s.err)
		case s.err == nil && was != nil:
			c.log.Info("telemetry source can be read again", "source", s.path)
		}
	}
}

// Telemetry returns the statistics of every metric that has values, as of the
// last collection.
func (c *Collector) Telemetry(at time.Time) psg.Telemetry {
	// Room for the agent's own two, too.
	metrics := make(map[string]psg.Stats, 2+2*len(c.sources))
	for _, s := range c.sources {
		for i, w := range s.windows {
			if w.n > 0 {
				metrics[s.metrics[i]] = w.stats()
			}
		}
	}
	return psg.Telemetry{At: at, Metrics: metrics}
}

// Last returns the latest value of one metric.
func (c *Collector) Last(metric string) (value float64, ok bool) {
	for _, s := range c.sources {
		for i, name := range s.metrics {
			if name == metric && s.windows[i].n > 0 {
				return s.windows[i].last(), true
			}
		}
	}
	return 0, false
}

// Reading is what one source of a Collector gave last.
type Reading struct {
	Path    string   // below proc
	Metrics []string // that it gives
	Err     error    // why it cannot be read; nil when it can
}

// Readings returns the state of every source, in a fixed order.
func (c *Collector) Readings() []Reading {
	readings := make([]Reading, len(c.sources))
	for i, s := range c.sources {
		readings[i] = Reading{Path: s.path, Metrics: s.metrics, Err: s.err}
	}
	return readings
}

// Close closes the files. A later Collect opens them again.
func (c *Collector) Close() {
	for _, s := range c.sources {
		s.close()
	}
}
