package telemetry

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

// The load that is measured: a node has some metrics that change with each
// collection, as many again that change now and then, and twice as many that
// stand still; and ten allocations of six metrics.
const (
	benchNodes   = 5_000
	busyMetrics  = 10
	calmMetrics  = 10
	stillMetrics = 20
	benchAllocs  = 10
)

// fleet is recorders of nodes that measure on the same beat.
type fleet struct {
	rng       *rand.Rand
	recorders []*Recorder
	at        time.Time
}

func newFleet(t testing.TB, nodes int) *fleet {
	f := &fleet{rng: rand.New(rand.NewPCG(1, 1)), at: origin}
	for i := range nodes {
		r, err := NewRecorder(psg.NodeID(fmt.Sprintf("6f0c3a2e-5a1b-4c11-8f00-%012d", i)), Config{CPUMHz: 48_000, CPUs: 16})
		if err != nil {
			t.Fatal(err)
		}
		f.recorders = append(f.recorders, r)
	}
	return f
}

// measure has one node measure once.
func (f *fleet) measure(r *Recorder) psg.Sample {
	for i := range busyMetrics {
		r.Node(fmt.Sprintf("busy%d_percent", i)).Put(f.at, 20+5*f.rng.NormFloat64())
	}
	for i := range calmMetrics {
		r.Node(fmt.Sprintf("calm%d_mb", i)).Put(f.at, float64(1000+10*((f.at.Unix()/20+int64(i))%7)))
	}
	for i := range stillMetrics {
		r.Node(fmt.Sprintf("still%d", i)).Put(f.at, 0)
	}
	for i := range benchAllocs {
		alloc := psg.AllocID(fmt.Sprintf("%v-%02d", r.node[24:], i))
		for _, metric := range [...]string{"cpu_percent", "memory_mb", "throttled_percent", "read_mbps", "write_mbps", "oom_kills"} {
			r.Alloc(alloc, metric).Put(f.at, 3)
		}
	}
	return r.Cut(f.at)
}

// BenchmarkFold is what one sample costs a reader, and the windows that are
// taken of each node twice a second, in processor time. 25,000 samples a second
// are 5,000 nodes'.
func BenchmarkFold(b *testing.B) {
	const nodes, beats = 50, 400
	f := newFleet(b, nodes)
	var samples []psg.Sample
	for range beats {
		for _, r := range f.recorders {
			samples = append(samples, f.measure(r))
		}
		f.at = f.at.Add(interval)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	w := NewWindows()
	var folding, taking time.Duration
	b.ResetTimer()
	folded := 0
	for ; folded < b.N; folded += nodes * 5 / 2 {
		batch := samples[folded%len(samples):]
		if len(batch) == len(samples) {
			w = NewWindows() // begin again, as folding what is known costs nothing
		}
		start := processorTime(b)
		for _, s := range batch[:nodes*5/2] {
			fold(b, w, s)
		}
		between := processorTime(b)
		w.Take()
		folding += between - start
		taking += processorTime(b) - between
	}
	per := func(d time.Duration) float64 { return d.Seconds() / float64(folded) * 25_000 }
	b.ReportMetric(per(folding), "cores/25000samples/s")
	b.ReportMetric(per(taking), "cores/10000takes/s")
}

// processorTime is what this thread has used, so that other load on the machine
// does not count.
func processorTime(t testing.TB) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_THREAD, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkMemory is what a reader keeps of 5,000 nodes after six minutes.
func BenchmarkMemory(b *testing.B) {
	for range b.N {
		const sampled = 100
		before := heap()
		w := NewWindows()
		f := newFleet(b, sampled)
		for range 6 * 60 * 5 {
			for _, r := range f.recorders {
				fold(b, w, f.measure(r))
			}
			f.at = f.at.Add(interval)
		}
		taken := w.Take()
		f.recorders = nil
		per := float64(heap()-before) / sampled
		b.ReportMetric(per, "B/node")
		b.ReportMetric(per*benchNodes/(1<<20), "MiB/5000nodes")
		runtime.KeepAlive(w)
		runtime.KeepAlive(taken)
	}
}

func heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
