package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// maxDevices bounds how many disks and how many network interfaces have
// metrics of their own; the others count in the totals only.
const maxDevices = 64

// diskFields are those of /proc/diskstats that follow a device's name.
type diskFields [10]uint64

const (
	diskReads = iota
	_         // merged
	diskReadSectors
	diskReadMS
	diskWrites
	_ // merged
	diskWriteSectors
	diskWriteMS
	_ // in flight, which is no counter
	diskBusyMS
)

// sectorBytes is the kernel's unit here, whatever the device's own is.
const sectorBytes = 512

// disk is one block device.
type disk struct {
	name    string
	kind    diskKind
	reading uint64 // the last in which it was seen
	counts  [len(diskFields{})]counter
	flow    *diskMetrics // nil unless it has metrics of its own
}

type diskKind uint8

const (
	uncounted diskKind = iota // a partition, or memory
	stacked                   // made of others, as by LVM: not in the totals, which would count twice
	physical
)

// diskMetrics is what is told of one device, or of all.
type diskMetrics struct {
	readMB, writeMB, reads, writes, latency, busy *metric
}

// diskFlow is what passed since the reading before.
type diskFlow struct {
	readMB, writeMB, reads, writes float64 // per second
	ops, opMS                      float64
	busy                           float64 // percent
}

func (m *diskMetrics) list() []*metric {
	return []*metric{m.readMB, m.writeMB, m.reads, m.writes, m.latency, m.busy}
}

func (m *diskMetrics) put(at time.Time, f diskFlow) {
	m.readMB.put(at, f.readMB)
	m.writeMB.put(at, f.writeMB)
	m.reads.put(at, f.reads)
	m.writes.put(at, f.writes)
	if f.ops == 0 {
		f.ops = 1 // nothing completed: no time spent either
	}
	m.latency.put(at, f.opMS/f.ops)
	m.busy.put(at, f.busy)
}

// disks is the reader of /proc/diskstats.
type disks struct {
	sys     string // the sys file system
	named   namer
	known   []*disk // in the order of the text, as of the last reading
	total   *diskMetrics
	reading uint64
}

func newDisks(sys string, named namer) *disks {
	d := &disks{sys: sys, named: named}
	d.total = d.metricsOf("disk_")
	return d
}

func (d *disks) metricsOf(prefix string) *diskMetrics {
	return &diskMetrics{
		readMB: d.named(prefix + "read_mbps"), writeMB: d.named(prefix + "write_mbps"),
		reads: d.named(prefix + "read_iops"), writes: d.named(prefix + "write_iops"),
		latency: d.named(prefix + "latency_ms"), busy: d.named(prefix + "busy_percent"),
	}
}

var errDisks = errors.New("a line is not of a device's number, name and ten counters")

func (d *disks) read(at time.Time, text []byte) error {
	d.reading++
	var total diskFlow
	some := false
	for i := 0; len(text) > 0; i++ {
		var row []byte
		row, text = line(text)
		name, fields, ok := parseDisk(row)
		if !ok {
			return fmt.Errorf("line %d: %w", i+1, errDisks)
		}
		disk := d.find(i, name)
		disk.reading = d.reading
		if disk.kind == uncounted {
			continue
		}
		flow, ok := disk.step(at, &fields)
		if !ok {
			continue
		}
		if fields[diskReads]+fields[diskWrites] > 0 {
			d.tell(disk, at, flow)
		}
		if disk.kind == physical {
			total, some = total.add(flow), true
		}
	}
	d.forgetGone()
	if some {
		d.total.put(at, total)
	}
	return nil
}

// parseDisk reads one line: major, minor, name and counters.
func parseDisk(row []byte) (name []byte, fields diskFields, ok bool) {
	_, row = field(row)
	_, row = field(row)
	name, row = field(row)
	return name, fields, len(name) > 0 && numbers(row, fields[:])
}

// find returns the device that stands on line i. Lines keep their places,
// except when a device comes or goes.
func (d *disks) find(i int, name []byte) *disk {
	if i < len(d.known) && d.known[i].name == string(name) {
		return d.known[i]
	}
	for _, disk := range d.known {
		if disk.name == string(name) {
			return disk
		}
	}
	disk := &disk{name: string(name), kind: d.kindOf(string(name))}
	d.known = append(d.known, disk)
	return disk
}

func (d *disks) kindOf(name string) diskKind {
	dir := filepath.Join(d.sys, "block", name) // partitions stand below their device
	if _, err := os.Stat(dir); err != nil {
		return uncounted
	}
	for _, memory := range []string{"loop", "ram", "zram"} { // or a file of another device
		if strings.HasPrefix(name, memory) {
			return uncounted
		}
	}
	if below, err := os.ReadDir(filepath.Join(dir, "slaves")); err == nil && len(below) > 0 {
		return stacked
	}
	return physical
}

// step takes in a device's counters and returns what passed; false when that is
// not known.
func (k *disk) step(at time.Time, fields *diskFields) (f diskFlow, ok bool) {
	var grown [len(diskFields{})]float64
	var seconds float64
	for i, n := range fields {
		grown[i], seconds = k.counts[i].step(at, n)
	}
	f = diskFlow{
		readMB:  grown[diskReadSectors] * sectorBytes / mib / seconds,
		writeMB: grown[diskWriteSectors] * sectorBytes / mib / seconds,
		reads:   grown[diskReads] / seconds,
		writes:  grown[diskWrites] / seconds,
		ops:     grown[diskReads] + grown[diskWrites],
		opMS:    grown[diskReadMS] + grown[diskWriteMS],
		busy:    min(100, grown[diskBusyMS]/10/seconds),
	}
	return f, known(f.readMB + f.writeMB + f.ops + f.opMS + f.busy)
}

func (f diskFlow) add(g diskFlow) diskFlow {
	return diskFlow{
		f.readMB + g.readMB, f.writeMB + g.writeMB, f.reads + g.reads, f.writes + g.writes,
		f.ops + g.ops, f.opMS + g.opMS, max(f.busy, g.busy),
	}
}

// tell gives a device metrics of its own, at first when it has done anything.
func (d *disks) tell(disk *disk, at time.Time, flow diskFlow) {
	if disk.flow == nil {
		told := 0
		for _, other := range d.known {
			if other.flow != nil {
				told++
			}
		}
		if told >= maxDevices {
			return
		}
		disk.flow = d.metricsOf("disk/" + disk.name + "/")
	}
	disk.flow.put(at, flow)
}

// forgetGone drops the devices that the last text did not have.
func (d *disks) forgetGone() {
	kept := d.known[:0]
	for _, disk := range d.known {
		if disk.reading == d.reading {
			kept = append(kept, disk)
			continue
		}
		disk.forget()
	}
	clear(d.known[len(kept):])
	d.known = kept
}

func (k *disk) forget() {
	k.counts = [len(k.counts)]counter{}
	if k.flow != nil {
		for _, m := range k.flow.list() {
			m.forget()
		}
	}
}

func (d *disks) metrics() []*metric {
	all := d.total.list()
	for _, disk := range d.known {
		if disk.flow != nil {
			all = append(all, disk.flow.list()...)
		}
	}
	return all
}

func (d *disks) forget() {
	for _, m := range d.total.list() {
		m.forget()
	}
	for _, disk := range d.known {
		disk.forget()
	}
}
