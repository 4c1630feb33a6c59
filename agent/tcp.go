package agent

import (
	"errors"
	"time"
)

// titled finds a column in a text that has pairs of lines, one of titles and
// one of numbers, which both begin with the same word: "Tcp:". Where a column
// stands is remembered, as the titles never change while the kernel runs.
type titled struct {
	word, title string
	column      int // from 1; 0 is not yet known
}

func (t *titled) find(text []byte) (uint64, bool) {
	for len(text) > 0 {
		var titles, row []byte
		titles, text = line(text)
		row, text = line(text)
		first, rest := field(titles)
		if string(first) != t.word {
			continue
		}
		if t.column == 0 && !t.locate(rest) {
			return 0, false
		}
		for range t.column {
			_, row = field(row)
		}
		n, _, ok := number(row)
		return n, ok
	}
	return 0, false
}

func (t *titled) locate(titles []byte) bool {
	for column := 1; len(titles) > 0; column++ {
		var title []byte
		if title, titles = field(titles); string(title) == t.title {
			t.column = column
			return true
		}
	}
	return false
}

// segments is the reader of /proc/net/snmp: how much of what TCP sends it has
// to send again.
type segments struct {
	sent, again          titled
	sentCount            counter
	againCount           counter
	retransmits, percent *metric
}

func newSegments(named namer) *segments {
	return &segments{
		sent: titled{word: "Tcp:", title: "OutSegs"}, again: titled{word: "Tcp:", title: "RetransSegs"},
		retransmits: named("tcp_retransmits_per_s"), percent: named("tcp_retransmits_percent"),
	}
}

var errTCP = errors.New(`no "Tcp:" lines with OutSegs and RetransSegs`)

func (s *segments) read(at time.Time, text []byte) error {
	sent, ok1 := s.sent.find(text)
	again, ok2 := s.again.find(text)
	if !ok1 || !ok2 {
		return errTCP
	}
	sentBy, _ := s.sentCount.step(at, sent)
	againBy, seconds := s.againCount.step(at, again)
	s.retransmits.put(at, againBy/seconds)
	// The kernel counts the two apart: nothing sent is nothing lost.
	s.percent.put(at, min(100, 100*againBy/max(sentBy+againBy, 1)))
	return nil
}

func (s *segments) metrics() []*metric { return []*metric{s.retransmits, s.percent} }

func (s *segments) forget() {
	for _, m := range s.metrics() {
		m.forget()
	}
	s.sentCount, s.againCount = counter{}, counter{}
}

// losses is the reader of /proc/net/netstat: segments that were lost, by how
// TCP knew, and connections that were refused for want of room.
type losses struct {
	columns []titled
	counts  []counter
	given   []*metric
}

func newLosses(named namer) *losses {
	l := new(losses)
	add := func(title, name string) {
		l.columns = append(l.columns, titled{word: "TcpExt:", title: title})
		l.given = append(l.given, named(name))
	}
	add("TCPLostRetransmit", "tcp_lost_retransmits_per_s")
	add("TCPTimeouts", "tcp_timeouts_per_s")
	add("ListenDrops", "tcp_listen_drops_per_s")
	l.counts = make([]counter, len(l.columns))
	return l
}

var errLosses = errors.New(`no "TcpExt:" lines with TCPLostRetransmit, TCPTimeouts and ListenDrops`)

func (l *losses) read(at time.Time, text []byte) error {
	for i := range l.columns {
		n, ok := l.columns[i].find(text)
		if !ok {
			return errLosses
		}
		l.given[i].put(at, l.counts[i].rate(at, n))
	}
	return nil
}

func (l *losses) metrics() []*metric { return l.given }

func (l *losses) forget() {
	for i, m := range l.given {
		m.forget()
		l.counts[i] = counter{}
	}
}
