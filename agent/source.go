package agent

import (
	"fmt"
	"time"
)

// How long a source that fails is left alone.
const (
	minBackoff = time.Second
	maxBackoff = time.Minute
)

// reader makes metrics of a text. It keeps nothing of the text.
type reader interface {
	read(at time.Time, text []byte) error
	// metrics are those that it gives now, in a fixed order.
	metrics() []*metric
	// forget drops the metrics' values and what was counted so far.
	forget()
}

// source is one file and what is made of it.
type source struct {
	path   string // below proc
	full   []byte // with a zero byte at the end
	lines  bool   // a text of many records
	every  time.Duration
	reader reader

	file    file
	dueAt   time.Time
	err     error // why it cannot be read
	backoff time.Duration
}

// collect reads the source if it is due, and reports whether that failed for
// the first time, or worked again.
func (s *source) collect(now time.Time, buffer []byte) (changed bool) {
	if now.Before(s.dueAt) {
		return false
	}
	was := s.err
	if s.err = s.read(now, buffer); s.err != nil {
		s.file.close()
		s.reader.forget()
		s.backoff = min(max(2*s.backoff, minBackoff), maxBackoff)
		s.dueAt = now.Add(s.backoff)
	} else {
		s.backoff, s.dueAt = 0, now.Add(s.every)
	}
	return (s.err == nil) != (was == nil)
}

func (s *source) read(now time.Time, buffer []byte) error {
	var text []byte
	var err error
	if s.lines {
		text, err = s.file.readRecords(s.full, buffer)
	} else {
		text, err = s.file.read(s.full, buffer)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", s.full[:len(s.full)-1], err)
	}
	if err := s.reader.read(now, text); err != nil {
		return fmt.Errorf("parse %s: %w", s.full[:len(s.full)-1], err)
	}
	return nil
}

// parser reads the values of a fixed list of metrics from a text. It reports
// false when there is nothing to say yet, such as a rate after the first
// reading.
type parser func(text []byte, values []float64) (ready bool, err error)

// parsed is the reader of a text that always gives the same metrics.
type parsed struct {
	parse  parser
	values []float64
	given  []*metric // one per value
}

func (p *parsed) read(at time.Time, text []byte) error {
	ready, err := p.parse(text, p.values)
	if err != nil || !ready {
		return err
	}
	for i, m := range p.given {
		m.put(at, p.values[i])
	}
	return nil
}

func (p *parsed) metrics() []*metric { return p.given }

func (p *parsed) forget() {
	for _, m := range p.given {
		m.forget()
	}
}
