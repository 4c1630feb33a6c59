package agent

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Fields of /proc/net/dev that follow an interface's name.
const (
	receivedBytes = 0
	receiveErrors = 2
	receiveDrops  = 3
	sentBytes     = 8
	sendErrors    = 10
	sendDrops     = 11
	linkFields    = 12
)

// linkFlow is what passed in a second: Mbit received and sent, errors and drops.
type linkFlow [4]float64

// links is the reader of /proc/net/dev. Only interfaces that a device stands
// behind count: what passes a virtual one passes a real one too, or never
// leaves the node. Where none has a device, as in a container, all but the
// loopback count.
type links struct {
	devices
	sys string // the sys file system
}

func newLinks(sys string, named namer) *links {
	l := &links{sys: sys}
	l.devices = newDevices(named, "network", linkFields, l.kind,
		"received_mbits", "sent_mbits", "errors_per_s", "drops_per_s")
	return l
}

var errLinks = errors.New("a line is not of an interface's name and twelve counters")

func (l *links) read(at time.Time, text []byte) error {
	_, text = line(text) // two lines of titles
	_, text = line(text)
	l.begin()
	counting := virtual
	for i := 0; len(text) > 0; i++ {
		var row []byte
		row, text = line(text)
		name, rest, ok := bytes.Cut(row, []byte{':'})
		var fields [linkFields]uint64
		if name = bytes.TrimLeft(name, " "); !ok || len(name) == 0 || !numbers(rest, fields[:]) {
			return fmt.Errorf("line %d: %w", i+3, errLinks)
		}
		counting = max(counting, l.see(i, name, at, fields[:]).kind)
	}
	l.end()
	l.tellOf(counting, at)
	return nil
}

// kind says which interfaces count.
func (l *links) kind(name string) deviceKind {
	if _, err := os.Stat(filepath.Join(l.sys, "class/net", name, "device")); err == nil {
		return physical
	}
	if name == "lo" {
		return uncounted
	}
	return virtual
}

// linkFlowOf is what passed; false when that is not known.
func linkFlowOf(rates []float64) (linkFlow, bool) {
	f := linkFlow{
		rates[receivedBytes] * 8 / 1e6,
		rates[sentBytes] * 8 / 1e6,
		rates[receiveErrors] + rates[sendErrors],
		rates[receiveDrops] + rates[sendDrops],
	}
	return f, known(f[0] + f[1] + f[2] + f[3])
}

// tellOf puts what passed through each interface of a kind, and through all.
func (l *links) tellOf(kind deviceKind, at time.Time) {
	var total linkFlow
	some := false
	for _, k := range l.known {
		f, ok := linkFlowOf(k.rates)
		if !ok || k.kind != kind {
			continue
		}
		some = true
		for i, v := range f {
			total[i] += v
		}
		l.tell(k, at, f[:])
	}
	if some {
		l.tellTotal(at, total[:])
	}
}
