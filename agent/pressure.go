package agent

import (
	"bytes"
	"errors"
	"math"
	"time"
)

// stalls is one reading of a file of pressure stall information.
type stalls struct {
	avg10      float64 // percent of the last 10 s in which some task waited
	some, full uint64  // microseconds in which some task waited, or all that were not idle
}

var errPressure = errors.New(`no line "some avg10=… total=…" at its start`)

// parseStalls reads the first line, and the second if there is one: older
// kernels have none for the CPU.
func parseStalls(text []byte) (s stalls, err error) {
	some, rest := line(text)
	avg, ok := bytes.CutPrefix(some, []byte("some avg10="))
	if !ok {
		return stalls{}, errPressure
	}
	if s.avg10, avg, ok = decimal(avg); !ok || len(avg) == 0 || avg[0] != ' ' {
		return stalls{}, errPressure
	}
	if s.some, ok = stallTotal(some); !ok {
		return stalls{}, errPressure
	}
	if full, _ := line(rest); len(full) > 0 {
		if s.full, ok = stallTotal(full); !ok {
			return stalls{}, errPressure
		}
	}
	return s, nil
}

func stallTotal(text []byte) (uint64, bool) {
	at := bytes.LastIndex(text, []byte(" total="))
	if at < 0 {
		return 0, false
	}
	n, rest, ok := number(text[at+len(" total="):])
	return n, ok && len(rest) == 0
}

// pressure is the reader of one such file. The average over 10 s is the
// kernel's own; the shares are since the reading before, and so tell sooner.
type pressure struct {
	average, some, full   *metric
	someTotal, fullTotals counter
}

func (p *pressure) read(at time.Time, text []byte) error {
	s, err := parseStalls(text)
	if err != nil {
		return err
	}
	p.average.put(at, s.avg10)
	p.some.put(at, stalledPercent(&p.someTotal, at, s.some))
	p.full.put(at, stalledPercent(&p.fullTotals, at, s.full))
	return nil
}

// stalledPercent is the share of the time since the reading before, from a
// total in microseconds; NaN at the first.
func stalledPercent(c *counter, at time.Time, total uint64) float64 {
	// The kernel's clock and ours are not read at the same moment.
	return math.Min(100, c.rate(at, total)/1e4)
}

func (p *pressure) metrics() []*metric { return []*metric{p.average, p.some, p.full} }

func (p *pressure) forget() {
	for _, m := range p.metrics() {
		m.forget()
	}
	p.someTotal, p.fullTotals = counter{}, counter{}
}
