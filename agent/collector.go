package agent

import (
	"log/slog"
	"path/filepath"
	"time"

	"github.com/psgrid/psg/telemetry"
)

// Collector measures a node and the workloads on it by the kernel's files. It
// keeps the files open and allocates nothing
// per collection, as long as no device and no workload comes or goes. It is for
// one goroutine.
type Collector struct {
	config    Config
	log       *slog.Logger
	sources   []*source
	sides     []*side            // run by RunSources
	metrics   []*metric          // in the order they were made
	beside    map[string]*metric // of the sources in sides, while they put them
	workloads *workloads
	recorder  *telemetry.Recorder // nil where nothing is recorded
	allocs    allocs
	buffer    []byte
}

// textSize is more than any text that the kernel writes for what we read, but
// for a node of hundreds of devices.
const textSize = 64 << 10

// NewCollector returns a collector of what config says: its Node and Buffer do
// not matter. Each value is put into recorder as well, unless that is nil; the
// recorder is then for the same goroutine.
func NewCollector(config Config, recorder *telemetry.Recorder) *Collector {
	config = config.withDefaults()
	c := &Collector{
		config: config, log: config.Log, workloads: newWorkloads(config),
		recorder: recorder, allocs: allocs{recorder: recorder}, buffer: make([]byte, textSize), beside: map[string]*metric{},
	}
	fixed := func(path string, parse parser, names ...string) {
		p := &parsed{parse: parse, values: make([]float64, len(names))}
		for _, name := range names {
			p.given = append(p.given, c.metric(name))
		}
		c.add(&source{path: path, reader: p})
	}
	fixed("stat", new(cpuTimes).parse, "cpu_percent", "cpu_steal_percent", "cpu_iowait_percent")
	fixed("meminfo", parseMemory, "memory_used_mb", "memory_available_mb", "swap_used_mb")
	fixed("loadavg", parseLoad, "load_1m")
	for _, resource := range []string{"cpu", "memory", "io"} {
		prefix := "pressure_" + resource
		c.add(&source{path: "pressure/" + resource, every: c.slowly(), reader: &pressure{
			average: c.metric(prefix + "_some_avg10_percent"),
			some:    c.metric(prefix + "_some_percent"),
			full:    c.metric(prefix + "_full_percent"),
		}})
	}
	c.add(&source{path: "diskstats", lines: true, reader: newDisks(config.Sys, c.metric)})
	c.add(&source{path: "net/dev", lines: true, reader: newLinks(config.Sys, c.metric)})
	c.add(&source{path: "net/snmp", every: c.slowly(), reader: newSegments(c.metric)})
	c.add(&source{path: "net/netstat", every: c.slowly(), reader: newLosses(c.metric)})
	for _, s := range config.Sources {
		c.sides = append(c.sides, &side{source: s, log: config.Log})
	}
	return c
}

// slowly is how long slow files are left alone: somewhat less than what is
// asked for, so that a collection that comes early by a little still reads them.
func (c *Collector) slowly() time.Duration { return c.config.SlowFiles - c.config.Interval/2 }

func (c *Collector) add(s *source) {
	s.full = append([]byte(filepath.Join(c.config.Proc, s.path)), 0)
	c.sources = append(c.sources, s)
}

// metric returns the metric of a name, a new one if there is none yet.
func (c *Collector) metric(name string) *metric {
	for _, m := range c.metrics {
		if m.name == name {
			return m
		}
	}
	m := &metric{name: name}
	if c.recorder != nil {
		m.series = c.recorder.Node(name)
	}
	c.metrics = append(c.metrics, m)
	return m
}

// Collect reads every source that is due. A source that fails is logged once,
// forgets its values, and is left alone for a while that doubles up to a minute;
// the others are read all the same.
func (c *Collector) Collect(now time.Time) {
	for _, s := range c.sources {
		switch changed := s.collect(now, c.buffer); {
		case changed && s.err != nil:
			c.log.Warn("telemetry source cannot be read", "source", s.path, "error", s.err)
		case changed:
			c.log.Info("telemetry source can be read again", "source", s.path)
		}
	}
	changed := c.workloads.collect(now, c.buffer)
	if c.recorder != nil {
		if changed {
			c.allocs.change(c.workloads.tasks)
		}
		c.allocs.put(now, c.workloads.uses)
	}
	c.takeSides(now)
}

// Last returns the latest value of one of the node's metrics.
func (c *Collector) Last(metric string) (value float64, ok bool) {
	for _, m := range c.metrics {
		if m.name == metric {
			return m.value, m.set
		}
	}
	if m := c.beside[metric]; m != nil {
		return m.value, m.set
	}
	return 0, false
}

// Uses returns the use of every task that runs on the node, ordered by
// allocation and task. It is the collector's own memory: valid until the next
// Collect, and not to be changed.
func (c *Collector) Uses() []Use { return c.workloads.uses }

// Reading is what one source of a Collector gave last.
type Reading struct {
	Path    string   // below proc, or the name of a Source
	Metrics []string // that it gives
	Err     error    // why it cannot be read; nil when it can
}

// Readings returns the state of every source, in a fixed order.
func (c *Collector) Readings() []Reading {
	readings := make([]Reading, len(c.sources), len(c.sources)+len(c.sides))
	for i, s := range c.sources {
		readings[i] = Reading{Path: s.path, Err: s.err}
		for _, m := range s.reader.metrics() {
			readings[i].Metrics = append(readings[i].Metrics, m.name)
		}
	}
	for _, s := range c.sides {
		readings = append(readings, s.reading())
	}
	return readings
}

// Groups says how the node's control groups are laid out, for people, and why
// workloads cannot be looked for in them, if so.
func (c *Collector) Groups() (layout string, err error) {
	return c.workloads.groups.hierarchy.String(), c.workloads.walked.err
}

// Close closes the files. A later Collect opens them again.
func (c *Collector) Close() {
	for _, s := range c.sources {
		s.file.close()
	}
	c.workloads.close()
}
