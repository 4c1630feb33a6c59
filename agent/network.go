package agent

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// linkFields are those of /proc/net/dev that follow an interface's name.
type linkFields [12]uint64

const (
	receivedBytes = 0
	receiveErrors = 2
	receiveDrops  = 3
	sentBytes     = 8
	sendErrors    = 10
	sendDrops     = 11
)

// link is one network interface.
type link struct {
	name     string
	physical bool
	reading  uint64 // the last in which it was seen
	counts   [len(linkFields{})]counter
	rates    [len(linkFields{})]float64 // per second, as of the last reading; NaN at first
	flow     *linkMetrics               // nil unless it has metrics of its own
}

// linkMetrics is what is told of one interface, or of all.
type linkMetrics struct{ received, sent, errors, drops *metric }

// linkFlow is what passed in a second.
type linkFlow struct{ receivedMbit, sentMbit, errors, drops float64 }

func (m *linkMetrics) list() []*metric { return []*metric{m.received, m.sent, m.errors, m.drops} }

func (m *linkMetrics) put(at time.Time, f linkFlow) {
	m.received.put(at, f.receivedMbit)
	m.sent.put(at, f.sentMbit)
	m.errors.put(at, f.errors)
	m.drops.put(at, f.drops)
}

// links is the reader of /proc/net/dev. Only interfaces that a device stands
// behind count: what passes a virtual one passes a real one too, or never
// leaves the node. Where none has a device, as in a container, all but the
// loopback count.
type links struct {
	sys     string // the sys file system
	named   namer
	known   []*link // in the order of the text, as of the last reading
	total   *linkMetrics
	reading uint64
}

func newLinks(sys string, named namer) *links {
	l := &links{sys: sys, named: named}
	l.total = l.metricsOf("network_")
	return l
}

func (l *links) metricsOf(prefix string) *linkMetrics {
	return &linkMetrics{
		received: l.named(prefix + "received_mbits"), sent: l.named(prefix + "sent_mbits"),
		errors: l.named(prefix + "errors_per_s"), drops: l.named(prefix + "drops_per_s"),
	}
}

var errLinks = errors.New("a line is not of an interface's name and twelve counters")

func (l *links) read(at time.Time, text []byte) error {
	_, text = line(text) // two lines of titles
	_, text = line(text)
	l.reading++
	for i := 0; len(text) > 0; i++ {
		var row []byte
		row, text = line(text)
		name, rest, ok := bytes.Cut(row, []byte{':'})
		var fields linkFields
		if name = bytes.TrimLeft(name, " "); !ok || len(name) == 0 || !numbers(rest, fields[:]) {
			return fmt.Errorf("line %d: %w", i+3, errLinks)
		}
		l.find(i, name).step(at, l.reading, &fields)
	}
	l.forgetGone()
	l.tell(at)
	return nil
}

// find returns the interface that stands on line i.
func (l *links) find(i int, name []byte) *link {
	if i < len(l.known) && l.known[i].name == string(name) {
		return l.known[i]
	}
	for _, known := range l.known {
		if known.name == string(name) {
			return known
		}
	}
	k := &link{name: string(name)}
	_, err := os.Stat(filepath.Join(l.sys, "class/net", k.name, "device"))
	k.physical = err == nil
	l.known = append(l.known, k)
	return k
}

func (k *link) step(at time.Time, reading uint64, fields *linkFields) {
	for i, n := range fields {
		grown, seconds := k.counts[i].step(at, n)
		k.rates[i] = grown / seconds
	}
	k.reading = reading
}

// flowOf is what passed in a second; false when that is not known.
func (k *link) flowOf() (linkFlow, bool) {
	r := &k.rates
	f := linkFlow{
		receivedMbit: r[receivedBytes] * 8 / 1e6,
		sentMbit:     r[sentBytes] * 8 / 1e6,
		errors:       r[receiveErrors] + r[sendErrors],
		drops:        r[receiveDrops] + r[sendDrops],
	}
	return f, known(f.receivedMbit + f.sentMbit + f.errors + f.drops)
}

// tell puts what passed through each interface that counts, and through all.
func (l *links) tell(at time.Time) {
	physical := false
	for _, k := range l.known {
		physical = physical || k.physical
	}
	var total linkFlow
	told := 0
	for _, k := range l.known {
		f, ok := k.flowOf()
		if !ok || k.physical != physical || k.name == "lo" {
			continue
		}
		total.receivedMbit += f.receivedMbit
		total.sentMbit += f.sentMbit
		total.errors += f.errors
		total.drops += f.drops
		if told++; told > maxDevices {
			continue
		}
		if k.flow == nil {
			k.flow = l.metricsOf("network/" + k.name + "/")
		}
		k.flow.put(at, f)
	}
	if told > 0 {
		l.total.put(at, total)
	}
}

// forgetGone drops the interfaces that the last text did not have.
func (l *links) forgetGone() {
	kept := l.known[:0]
	for _, k := range l.known {
		if k.reading == l.reading {
			kept = append(kept, k)
			continue
		}
		k.forget()
	}
	clear(l.known[len(kept):])
	l.known = kept
}

func (k *link) forget() {
	k.counts = [len(k.counts)]counter{}
	if k.flow != nil {
		for _, m := range k.flow.list() {
			m.forget()
		}
	}
}

func (l *links) metrics() []*metric {
	all := l.total.list()
	for _, k := range l.known {
		if k.flow != nil {
			all = append(all, k.flow.list()...)
		}
	}
	return all
}

func (l *links) forget() {
	for _, m := range l.total.list() {
		m.forget()
	}
	for _, k := range l.known {
		k.forget()
	}
}
