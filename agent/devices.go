package agent

import (
	"slices"
	"time"
)

// maxDevices bounds how many disks and how many network interfaces have
// metrics of their own; the others count in the totals only.
const maxDevices = 64

// devices are those that a text tells of, one a line, while they come and go: each
// with as many counters, and with the same metrics as all of them together.
type devices struct {
	named    namer
	what     string   // "disk": of all "disk_read_mbps", of one "disk/sda/read_mbps"
	names    []string // of the metrics
	counters int
	kindOf   func(name string) deviceKind

	known   []*device // in the order of the text, as of the last reading
	total   []*metric
	reading uint64
}

// device is one of them.
type device struct {
	name    string
	kind    deviceKind
	reading uint64 // the last in which it was seen
	counts  []counter
	rates   []float64 // of the counters, per second; NaN at first
	own     []*metric // nil unless it has metrics of its own
}

// deviceKind is whether a device counts.
type deviceKind uint8

const (
	uncounted deviceKind = iota // such as a partition, or memory
	stacked                     // made of others, as by LVM: not in the totals, which would count twice
	virtual                     // no device stands behind it: it counts where none does
	physical
)

func newDevices(named namer, what string, counters int, kindOf func(string) deviceKind, metrics ...string) devices {
	d := devices{named: named, what: what, names: metrics, counters: counters, kindOf: kindOf}
	d.total = d.newMetrics(what + "_")
	return d
}

// begin is before the first line of a text.
func (d *devices) begin() { d.reading++ }

// newMetrics makes the metrics of all, or of one.
func (d *devices) newMetrics(prefix string) []*metric {
	made := make([]*metric, len(d.names))
	for i, name := range d.names {
		made[i] = d.named(prefix + name)
	}
	return made
}

// see takes in the counters of the device that stands on line i. Lines keep their
// places, except when a device comes or goes.
func (d *devices) see(i int, name []byte, at time.Time, counters []uint64) *device {
	found := d.find(i, name)
	found.reading = d.reading
	for i, n := range counters {
		grown, seconds := found.counts[i].step(at, n)
		found.rates[i] = grown / seconds
	}
	return found
}

func (d *devices) find(i int, name []byte) *device {
	if i < len(d.known) && d.known[i].name == string(name) {
		return d.known[i]
	}
	for _, known := range d.known {
		if known.name == string(name) {
			return known
		}
	}
	fresh := &device{
		name: string(name), kind: d.kindOf(string(name)),
		counts: make([]counter, d.counters), rates: make([]float64, d.counters),
	}
	d.known = append(d.known, fresh)
	return fresh
}

// tell puts a device's own values, while there is room for its metrics.
func (d *devices) tell(of *device, at time.Time, values []float64) {
	if of.own == nil {
		told := 0
		for _, other := range d.known {
			if other.own != nil {
				told++
			}
		}
		if told >= maxDevices {
			return
		}
		of.own = d.newMetrics(d.what + "/" + of.name + "/")
	}
	putAll(of.own, at, values)
}

func (d *devices) tellTotal(at time.Time, values []float64) { putAll(d.total, at, values) }

func putAll(metrics []*metric, at time.Time, values []float64) {
	for i, m := range metrics {
		m.put(at, values[i])
	}
}

// end is after the last line: devices that the text did not have are dropped.
func (d *devices) end() {
	kept := d.known[:0]
	for _, k := range d.known {
		if k.reading == d.reading {
			kept = append(kept, k)
			continue
		}
		k.forget()
	}
	clear(d.known[len(kept):])
	d.known = kept
}

func (k *device) forget() {
	clear(k.counts)
	forgetAll(k.own)
}

func forgetAll(metrics []*metric) {
	for _, m := range metrics {
		m.forget()
	}
}

// metrics are those that are given now.
func (d *devices) metrics() []*metric {
	given := slices.Clone(d.total)
	for _, k := range d.known {
		given = append(given, k.own...)
	}
	return given
}

// forget drops all values and what was counted so far.
func (d *devices) forget() {
	forgetAll(d.total)
	for _, k := range d.known {
		k.forget()
	}
}
