package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/telemetry"
)

// Publisher takes samples away from the node, in the order it is given them. An
// error means that the sample, or one before it, may not have been taken: the
// next one is full.
type Publisher interface {
	Publish(ctx context.Context, sample psg.Sample) error
}

// Config says what an agent does. Zero values mean the defaults.
type Config struct {
	Node psg.NodeID   // whom the measurements are about; required
	Log  *slog.Logger // required

	Proc   string // the proc file system; default "/proc"
	Sys    string // the sys file system; default "/sys"
	Cgroup string // where control groups are mounted; default "fs/cgroup" below Sys

	Orders *Orders // carried out beside; optional, and the caller runs them

	Sources []Source // that are measured beside the kernel's files

	Interval     time.Duration // between collections; default 200 ms
	SlowFiles    time.Duration // between readings of files that cost the kernel much; default 1 s, or Interval if longer
	SlowInterval time.Duration // between collections while the node is short of CPU; default 2 s
	Buffer       int           // samples that wait for the Publisher; default 32
}

func (c Config) withDefaults() Config {
	if c.Proc == "" {
		c.Proc = "/proc"
	}
	if c.Sys == "" {
		c.Sys = "/sys"
	}
	if c.Cgroup == "" {
		c.Cgroup = filepath.Join(c.Sys, "fs/cgroup")
	}
	if c.Interval == 0 {
		c.Interval = 200 * time.Millisecond
	}
	if c.SlowFiles == 0 {
		c.SlowFiles = max(time.Second, c.Interval)
	}
	if c.SlowInterval == 0 {
		c.SlowInterval = max(2*time.Second, c.Interval)
	}
	if c.Buffer == 0 {
		c.Buffer = 32
	}
	return c
}

// The bounds of a Config: faster would disturb the node, and both bound memory.
const (
	minInterval = 10 * time.Millisecond
	maxBuffer   = 100_000
)

// Validate reports the first field that makes no sense.
func (c Config) Validate() error {
	c = c.withDefaults()
	switch {
	case c.Node == "":
		return errors.New("agent: no node ID")
	case c.Log == nil:
		return errors.New("agent: no logger")
	case c.Interval < minInterval:
		return fmt.Errorf("agent: interval %s is shorter than %s", c.Interval, minInterval)
	case c.SlowInterval < c.Interval:
		return fmt.Errorf("agent: slow interval %s is shorter than the interval %s", c.SlowInterval, c.Interval)
	case c.SlowFiles < c.Interval:
		return fmt.Errorf("agent: slow files every %s, which is more often than the interval %s", c.SlowFiles, c.Interval)
	case c.Buffer < 1 || c.Buffer > maxBuffer:
		return fmt.Errorf("agent: buffer %d is outside 1..%d", c.Buffer, maxBuffer)
	}
	return nil
}

// Agent measures one node. Make one with New and Run it once.
type Agent struct {
	config    Config
	publisher Publisher
	collector *Collector
	pace      pacer
	recorder  *telemetry.Recorder
	degraded  *telemetry.Series
	dropped   *telemetry.Series
	outbox    outbox
	scrapes   chan chan<- []byte
}

// New returns an agent that publishes to publisher.
func New(config Config, publisher Publisher) (*Agent, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	mhz, cpus := cpuMHz(config.Proc, config.Sys)
	recorder, err := telemetry.NewRecorder(config.Node, telemetry.Config{CPUMHz: mhz, CPUs: cpus})
	if err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	return &Agent{
		config:    config,
		publisher: publisher,
		collector: NewCollector(config, recorder),
		pace:      pacer{normal: config.Interval, slow: config.SlowInterval},
		recorder:  recorder,
		degraded:  recorder.Node("agent_degraded"),
		dropped:   recorder.Node("agent_dropped"),
		outbox:    newOutbox(config.Buffer, recorder.Resync),
		scrapes:   make(chan chan<- []byte),
	}, nil
}

// Run collects and publishes until ctx ends, and then returns nil: what was not
// published yet is dropped. A node that cannot be measured and a Publisher that
// fails are no errors: both are logged, once, and tried again.
func (a *Agent) Run(ctx context.Context) error {
	defer a.collector.Close()
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { a.send(ctx) })
	beside.Go(func() { a.collector.RunSources(ctx) })

	next := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case reply := <-a.scrapes:
			reply <- a.exposition()
			continue
		case <-timer.C:
		case <-a.config.Orders.urgent():
			a.collector.hurry()
		}
		now := time.Now()
		interval := a.observe(now)
		// Keep the rhythm, but never catch up on collections that were missed, nor
		// rest for longer after one that came early.
		if next = next.Add(interval); next.Before(now) || next.After(now.Add(interval)) {
			next = now.Add(interval)
		}
		timer.Reset(next.Sub(now))
	}
}

// observe collects once, hands the sample to the sender, and returns the time
// until the next one.
func (a *Agent) observe(now time.Time) time.Duration {
	a.collector.Collect(now)
	a.config.Orders.observe(now, a.collector)
	if busy, ok := a.collector.Last("cpu_percent"); ok && a.pace.observe(busy) {
		a.config.Log.Warn("collection rate changed", "degraded", a.pace.degraded, "cpu_percent", busy, "interval", a.pace.interval())
	}
	a.degraded.Put(now, flag(a.pace.degraded))
	a.dropped.Put(now, float64(a.outbox.droppedSoFar()))
	a.outbox.put(a.recorder.Cut(now))
	return a.pace.interval()
}

func flag(on bool) float64 {
	if on {
		return 1
	}
	return 0
}
