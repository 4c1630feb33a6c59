package agent

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/telemetry"
)

// allocMetric is one metric of an allocation, made of its tasks' uses.
type allocMetric struct {
	name    string
	of      func(*Use) float64
	largest bool // of its tasks'; else their sum
}

// The metrics of an allocation. They are never written to.
var allocMetrics = [...]allocMetric{
	{"cpu_percent", func(u *Use) float64 { return u.CPUPercent }, false},
	{"throttled_percent", func(u *Use) float64 { return u.ThrottledPercent }, true},
	{"memory_mb", func(u *Use) float64 { return u.MemoryMB }, false},
	{"working_set_mb", func(u *Use) float64 { return u.WorkingSetMB }, false},
	{"read_mbps", func(u *Use) float64 { return u.ReadMBps }, false},
	{"write_mbps", func(u *Use) float64 { return u.WriteMBps }, false},
	{"read_iops", func(u *Use) float64 { return u.ReadIOPS }, false},
	{"write_iops", func(u *Use) float64 { return u.WriteIOPS }, false},
	{"pressure_cpu_some_percent", func(u *Use) float64 { return u.CPUPressurePercent }, true},
	{"pressure_memory_some_percent", func(u *Use) float64 { return u.MemoryPressurePercent }, true},
	{"pressure_io_some_percent", func(u *Use) float64 { return u.IOPressurePercent }, true},
	{"oom_kills", func(u *Use) float64 { return float64(u.OOMKills) }, false},
}

// alloc is an allocation that is recorded.
type alloc struct {
	id     psg.AllocID
	series [len(allocMetrics)]*telemetry.Series
}

// allocs puts what tasks use into a Recorder, as what their allocations use.
type allocs struct {
	recorder *telemetry.Recorder
	known    []alloc // ordered by ID
}

// put records the uses of the tasks that change was told of. A value that is
// not known of any task of an allocation is left out.
func (a *allocs) put(at time.Time, uses []Use) {
	for _, k := range a.known {
		tasks := uses[:sameAlloc(uses)]
		uses = uses[len(tasks):]
		for i := range allocMetrics {
			if v := allocMetrics[i].total(tasks); known(v) {
				k.series[i].Put(at, v)
			}
		}
	}
}

func sameAlloc(uses []Use) int {
	n := 1
	for n < len(uses) && uses[n].Alloc == uses[0].Alloc {
		n++
	}
	return n
}

// total is the metric over an allocation's tasks, of which there must be one.
func (m *allocMetric) total(tasks []Use) float64 {
	total := math.NaN()
	for i := range tasks {
		switch v := m.of(&tasks[i]); {
		case !known(v):
		case !known(total):
			total = v
		case m.largest:
			total = max(total, v)
		default:
			total += v
		}
	}
	return total
}

// has reports whether an allocation is recorded.
func (a *allocs) has(id psg.AllocID) bool {
	_, ok := slices.BinarySearchFunc(a.known, id, func(k alloc, id psg.AllocID) int { return cmp.Compare(k.id, id) })
	return ok
}

// change takes up the allocations of tasks, which are ordered by them, and has
// the Recorder forget the others.
func (a *allocs) change(tasks []*task) {
	before := a.known
	a.known = nil
	for i, t := range tasks {
		if i > 0 && tasks[i-1].use.Alloc == t.use.Alloc {
			continue
		}
		for len(before) > 0 && before[0].id < t.use.Alloc {
			a.recorder.Forget(before[0].id)
			before = before[1:]
		}
		if len(before) > 0 && before[0].id == t.use.Alloc {
			a.known = append(a.known, before[0])
			before = before[1:]
			continue
		}
		fresh := alloc{id: t.use.Alloc}
		for i, m := range allocMetrics {
			fresh.series[i] = a.recorder.Alloc(fresh.id, m.name)
		}
		a.known = append(a.known, fresh)
	}
	for _, gone := range before {
		a.recorder.Forget(gone.id)
	}
}
