package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Fields of /proc/diskstats that follow a device's name.
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
	diskFields
)

// sectorBytes is the kernel's unit here, whatever the device's own is.
const sectorBytes = 512

// diskFlow is what passed in a second.
type diskFlow struct {
	readMB, writeMB, reads, writes float64
	ops, opMS                      float64
	busy                           float64 // percent
}

// disks is the reader of /proc/diskstats.
type disks struct {
	devices
	sys string // the sys file system
}

func newDisks(sys string, named namer) *disks {
	d := &disks{sys: sys}
	d.devices = newDevices(named, "disk", diskFields, d.kind,
		"read_mbps", "write_mbps", "read_iops", "write_iops", "latency_ms", "busy_percent")
	return d
}

var errDisks = errors.New("a line is not of a device's number, name and ten counters")

func (d *disks) read(at time.Time, text []byte) error {
	d.begin()
	var total diskFlow
	some := false
	for i := 0; len(text) > 0; i++ {
		var row []byte
		row, text = line(text)
		name, fields, ok := parseDisk(row)
		if !ok {
			return fmt.Errorf("line %d: %w", i+1, errDisks)
		}
		disk := d.see(i, name, at, fields[:])
		flow, ok := diskFlowOf(disk.rates)
		if disk.kind == uncounted || !ok {
			continue
		}
		if fields[diskReads]+fields[diskWrites] > 0 { // one that never did anything has no metrics
			values := flow.values()
			d.tell(disk, at, values[:])
		}
		if disk.kind == physical {
			total, some = total.add(flow), true
		}
	}
	d.end()
	if some {
		values := total.values()
		d.tellTotal(at, values[:])
	}
	return nil
}

// parseDisk reads one line: major, minor, name and counters.
func parseDisk(row []byte) (name []byte, fields [diskFields]uint64, ok bool) {
	_, row = field(row)
	_, row = field(row)
	name, row = field(row)
	return name, fields, len(name) > 0 && numbers(row, fields[:])
}

// kind says which disks count.
func (d *disks) kind(name string) deviceKind {
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

// diskFlowOf is what passed; false when that is not known.
func diskFlowOf(rates []float64) (f diskFlow, ok bool) {
	f = diskFlow{
		readMB:  rates[diskReadSectors] * sectorBytes / mib,
		writeMB: rates[diskWriteSectors] * sectorBytes / mib,
		reads:   rates[diskReads],
		writes:  rates[diskWrites],
		ops:     rates[diskReads] + rates[diskWrites],
		opMS:    rates[diskReadMS] + rates[diskWriteMS],
		busy:    min(100, rates[diskBusyMS]/10),
	}
	return f, known(f.readMB + f.writeMB + f.ops + f.opMS + f.busy)
}

func (f diskFlow) add(g diskFlow) diskFlow {
	return diskFlow{
		f.readMB + g.readMB, f.writeMB + g.writeMB, f.reads + g.reads, f.writes + g.writes,
		f.ops + g.ops, f.opMS + g.opMS, max(f.busy, g.busy),
	}
}

// values are those of the metrics, in their order.
func (f diskFlow) values() [6]float64 {
	latency := f.opMS
	if f.ops > 0 { // else nothing completed: no time was spent either
		latency /= f.ops
	}
	return [...]float64{f.readMB, f.writeMB, f.reads, f.writes, latency, f.busy}
}
