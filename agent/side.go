package agent

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/psgrid/psg"
)

// Source measures what no file of the kernel tells, such as GPUs, and what may
// take its time. It is for one goroutine, which is not the collector's: a source
// that hangs holds up no other.
type Source interface {
	// Name says what it is, in logs and to people: "nvml".
	Name() string
	// Every is the time between measurements.
	Every() time.Duration
	// Measure puts what it finds now. A value that it put before, and not this
	// time, can no longer be measured. After an error the source is left alone
	// for a while, and nothing of it is known. ctx ends with the agent.
	Measure(ctx context.Context, put Put) error
}

// Put takes one value of a metric, of an allocation or, where alloc is empty, of
// the node. Names end in the unit, as all do. One that is no number is left out,
// and one of an allocation that does not run here.
type Put func(alloc psg.AllocID, metric string, value float64)

// Finder is a Source that also knows which devices are on the node.
type Finder interface {
	// Devices are those that the last Measure found, by ID, whether or not it
	// failed; known is false while nothing is known of them. They are the caller's.
	Devices() (devices []psg.Device, known bool)
}

// maxSideValues bounds what one source may put at once.
const maxSideValues = 4096

// sideValue is one value that a Source put.
type sideValue struct {
	alloc  psg.AllocID
	metric string
	value  float64
}

// sideName is what a value is of.
type sideName struct {
	alloc  psg.AllocID
	metric string
}

// side runs one Source and hands over what it finds.
type side struct {
	source Source
	log    *slog.Logger

	mu     sync.Mutex
	values []sideValue // the latest, unless it was taken; never changed once here
	fresh  bool
	err    error
	found  []psg.Device // if there
	there  bool

	put []sideValue // by the collector, at last
}

// run measures until ctx ends.
func (s *side) run(ctx context.Context) {
	backoff := time.Duration(0)
	for ctx.Err() == nil {
		wait := s.source.Every()
		if err := s.measure(ctx); err != nil {
			if backoff == 0 && ctx.Err() == nil {
				s.log.Warn("telemetry source cannot be read", "source", s.source.Name(), "error", err)
			}
			backoff = min(max(2*backoff, minBackoff), maxBackoff)
			wait = backoff
		} else if backoff > 0 {
			backoff = 0
			s.log.Info("telemetry source can be read again", "source", s.source.Name())
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

func (s *side) measure(ctx context.Context) error {
	var values []sideValue
	err := s.source.Measure(ctx, func(alloc psg.AllocID, metric string, value float64) {
		if known(value) && len(values) < maxSideValues {
			values = append(values, sideValue{alloc, metric, value})
		}
	})
	if err != nil {
		err, values = fmt.Errorf("measure by %s: %w", s.source.Name(), err), nil
	}
	var found []psg.Device
	there := false
	if finder, ok := s.source.(Finder); ok {
		found, there = finder.Devices()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values, s.fresh, s.err = values, true, err
	s.found, s.there = found, there
	return err
}

// devices are those that the source has found, if it is known which.
func (s *side) devices() (found []psg.Device, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.found, s.there
}

// take returns what was measured since the last take, if anything was.
func (s *side) take() (values []sideValue, fresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	values, fresh = s.values, s.fresh
	s.values, s.fresh = nil, false
	return values, fresh
}

// RunSources runs the sources of the Config until ctx ends. What they find
// becomes known with the next Collect.
func (c *Collector) RunSources(ctx context.Context) {
	var running sync.WaitGroup
	for _, s := range c.sides {
		running.Go(func() { s.run(ctx) })
	}
	running.Wait()
}

// takeSides takes in what the sources have found. One of them at most is a Finder.
func (c *Collector) takeSides(now time.Time) {
	for _, s := range c.sides {
		values, fresh := s.take()
		if !fresh {
			continue
		}
		still := make(map[sideName]bool, len(values))
		for _, v := range values {
			still[sideName{v.alloc, v.metric}] = true
		}
		for _, old := range s.put {
			if !still[sideName{old.alloc, old.metric}] {
				c.forgetSide(old)
			}
		}
		for _, v := range values {
			c.putSide(now, v)
		}
		s.put = values
	}
	if found, known := c.Devices(); known && c.recorder != nil {
		c.recorder.PutDevices(found)
	}
}

// Devices are those that a source has found on the node, if it is known which.
func (c *Collector) Devices() (found []psg.Device, known bool) {
	for _, s := range c.sides {
		if found, known = s.devices(); known {
			return found, true
		}
	}
	return nil, false
}

func (c *Collector) putSide(now time.Time, v sideValue) {
	switch {
	case v.alloc == "":
		c.besideMetric(v.metric).put(now, v.value)
	case c.recorder != nil && c.allocs.has(v.alloc):
		c.recorder.Alloc(v.alloc, v.metric).Put(now, v.value)
	}
}

func (c *Collector) forgetSide(v sideValue) {
	switch {
	case v.alloc == "":
		if m := c.beside[v.metric]; m != nil {
			m.forget()
			if m.series != nil {
				m.series.Forget()
			}
			delete(c.beside, v.metric)
		}
	case c.recorder != nil && c.allocs.has(v.alloc):
		c.recorder.Alloc(v.alloc, v.metric).Forget()
	}
}

// besideMetric is a source's metric of a name. Unlike the kernel's it is kept only
// while it is put: a source may have other names each time.
func (c *Collector) besideMetric(name string) *metric {
	m := c.beside[name]
	if m == nil {
		m = &metric{name: name}
		if c.recorder != nil {
			m.series = c.recorder.Node(name)
		}
		c.beside[name] = m
	}
	return m
}

// reading is the source's state, for people.
func (s *side) reading() Reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := Reading{Path: s.source.Name(), Err: s.err}
	for _, v := range s.put {
		if v.alloc == "" {
			r.Metrics = append(r.Metrics, v.metric)
		}
	}
	return r
}
