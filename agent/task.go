package agent

import (
	"errors"
	"math"
	"time"
)

// task is one workload's task on the node: what it used, and where that is read.
type task struct {
	group *group
	use   Use

	files      [mostTaskFiles]file
	missed     [mostTaskFiles]retry
	slowAt     time.Time
	completeAt time.Time

	cpu, periods, throttled        counter
	readBytes, writeBytes          counter
	reads, writes                  counter
	stallCPU, stallMemory, stallIO counter
	processes                      processes // read where there are no groups to read
}

// retry is when a file that could not be read is tried again.
type retry struct {
	at      time.Time
	backoff time.Duration
}

const mostTaskFiles = 9

// taskFile is one of the files of a task's control groups. Its reader sets what
// it gives to NaN first: a text without it is a reading of nothing.
type taskFile struct {
	name string
	dir  func(*Cgroups) string
	slow bool // the kernel takes long to make it, or nobody needs it at once
	read func(t *task, at time.Time, text []byte) error
}

func cpuDir(c *Cgroups) string     { return c.CPU }
func cpuAcctDir(c *Cgroups) string { return c.CPUAcct }
func memoryDir(c *Cgroups) string  { return c.Memory }
func ioDir(c *Cgroups) string      { return c.IO }

// The files by the version of control groups. They are never written to.
var (
	separateFiles = []taskFile{
		{"cpuacct.usage", cpuAcctDir, false, (*task).readUsage},
		{"cpu.stat", cpuDir, false, (*task).readThrottled},
		{"memory.usage_in_bytes", memoryDir, false, (*task).readMemory},
		{"memory.stat", memoryDir, true, (*task).readSeparateMemory},
		{"memory.oom_control", memoryDir, true, (*task).readOOM},
		{"blkio.throttle.io_service_bytes_recursive", ioDir, true, (*task).readSeparateBytes},
		{"blkio.throttle.io_serviced_recursive", ioDir, true, (*task).readSeparateOps},
	}
	unifiedFiles = []taskFile{
		{"cpu.stat", cpuDir, false, (*task).readUnifiedCPU},
		{"memory.current", memoryDir, false, (*task).readMemory},
		{"memory.stat", memoryDir, true, (*task).readUnifiedMemory},
		{"memory.max", memoryDir, true, (*task).readLimit},
		{"memory.events", memoryDir, true, (*task).readOOM},
		{"io.stat", ioDir, true, (*task).readUnifiedIO},
		{"cpu.pressure", cpuDir, true, (*task).readStallCPU},
		{"memory.pressure", memoryDir, true, (*task).readStallMemory},
		{"io.pressure", ioDir, true, (*task).readStallIO},
	}
)

func newTask(g *group, dirs Cgroups) *task {
	unknown := math.NaN()
	return &task{group: g, use: Use{
		Alloc: g.owner.alloc, Task: g.owner.task, Cgroups: dirs,
		CPUPercent: unknown, ThrottledPercent: unknown,
		MemoryMB: unknown, WorkingSetMB: unknown, MemoryLimitMB: unknown,
		ReadMBps: unknown, WriteMBps: unknown, ReadIOPS: unknown, WriteIOPS: unknown,
		CPUPressurePercent: unknown, MemoryPressurePercent: unknown, IOPressurePercent: unknown,
	}}
}

const (
	mib = 1 << 20
	// noLimit is above what the kernel of version 1 writes for no limit, which
	// depends on its page size, and far above any machine's memory.
	noLimit = 1 << 62
)

var (
	errNumber   = errors.New("not one number")
	errCounters = errors.New("lacks a counter")
)

func (t *task) readUsage(at time.Time, text []byte) error {
	t.use.CPUPercent = math.NaN()
	ns, ok := whole(text)
	if !ok {
		return errNumber
	}
	t.use.CPUPercent = t.cpu.rate(at, ns) / 1e7
	return nil
}

// readThrottled gives the share of the periods of its quota in which the task
// ran out of it. The kernel's throttled time would not do: it is summed over
// CPUs.
func (t *task) readThrottled(at time.Time, text []byte) error {
	t.use.ThrottledPercent = math.NaN()
	periods, ok1 := keyed(text, "nr_periods")
	throttled, ok2 := keyed(text, "nr_throttled")
	if !ok1 || !ok2 {
		return errCounters
	}
	passed, _ := t.periods.step(at, periods)
	within, _ := t.throttled.step(at, throttled)
	t.use.ThrottledPercent = min(100, 100*within/max(passed, 1)) // no period passes while it is idle
	return nil
}

func (t *task) readUnifiedCPU(at time.Time, text []byte) error {
	t.use.CPUPercent = math.NaN()
	us, ok := keyed(text, "usage_usec")
	if !ok {
		return errCounters
	}
	t.use.CPUPercent = t.cpu.rate(at, us) / 1e4
	_ = t.readThrottled(at, text) // where the controller is not enabled there is the usage only
	return nil
}

func (t *task) readMemory(_ time.Time, text []byte) error {
	t.use.MemoryMB = math.NaN()
	n, ok := whole(text)
	if !ok {
		return errNumber
	}
	t.use.MemoryMB = float64(n) / mib
	return nil
}

func (t *task) readSeparateMemory(_ time.Time, text []byte) error {
	t.use.WorkingSetMB, t.use.MemoryLimitMB = math.NaN(), math.NaN()
	limit, ok1 := keyed(text, "hierarchical_memory_limit")
	cold, ok2 := keyed(text, "total_inactive_file")
	if !ok1 || !ok2 {
		return errCounters
	}
	t.setLimit(limit)
	t.setWorkingSet(cold)
	return nil
}

func (t *task) readUnifiedMemory(_ time.Time, text []byte) error {
	t.use.WorkingSetMB = math.NaN()
	cold, ok := keyed(text, "inactive_file")
	if !ok {
		return errCounters
	}
	t.setWorkingSet(cold)
	return nil
}

func (t *task) setWorkingSet(cold uint64) {
	t.use.WorkingSetMB = max(0, t.use.MemoryMB-float64(cold)/mib)
}

func (t *task) setLimit(bytes uint64) {
	if t.use.MemoryLimitMB = float64(bytes) / mib; bytes >= noLimit {
		t.use.MemoryLimitMB = math.Inf(1)
	}
}

func (t *task) readLimit(_ time.Time, text []byte) error {
	t.use.MemoryLimitMB = math.NaN()
	if string(text) == "max\n" {
		t.use.MemoryLimitMB = math.Inf(1)
		return nil
	}
	n, ok := whole(text)
	if !ok {
		return errNumber
	}
	t.setLimit(n)
	return nil
}

func (t *task) readOOM(_ time.Time, text []byte) error {
	n, ok := keyed(text, "oom_kill")
	if !ok {
		return errCounters // kernels before 4.13
	}
	t.use.OOMKills = n
	return nil
}

func (t *task) readStallCPU(at time.Time, text []byte) error {
	return readStalled(&t.use.CPUPressurePercent, &t.stallCPU, at, text)
}

func (t *task) readStallMemory(at time.Time, text []byte) error {
	return readStalled(&t.use.MemoryPressurePercent, &t.stallMemory, at, text)
}

func (t *task) readStallIO(at time.Time, text []byte) error {
	return readStalled(&t.use.IOPressurePercent, &t.stallIO, at, text)
}

func readStalled(percent *float64, total *counter, at time.Time, text []byte) error {
	*percent = math.NaN()
	s, err := parseStalls(text)
	if err == nil {
		*percent = stalledPercent(total, at, s.some)
	}
	return err
}
