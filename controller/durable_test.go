package controller

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/internal/heap"
	"github.com/psgrid/psg/rpc"
)

// grid is a leader on an embedded bus behind its gRPC face, with nodes that
// have room for everything.
type grid struct {
	*Controller
	client *rpc.Client
	asked  atomic.Int64
}

const (
	gridNodes     = 200
	gridWorkloads = 100
)

// lenient is a policy that allows everything: what is left is the way itself.
type lenient struct{}

func (lenient) Rule(_ context.Context, w *psg.Workload, _ *psg.Snapshot) (psg.Ruling, error) {
	return psg.Ruling{Workload: w.ID}, nil
}

func (lenient) Sequel(*psg.Snapshot) psg.Sequel { return lenient{} }

func (lenient) Limits() []psg.Limit { return nil }

func (lenient) Free(psg.RequestID) {}

func (lenient) Admit(context.Context, *psg.Workload, psg.Placement) ([]psg.Reason, error) {
	return nil, nil
}

func (lenient) Judged() int { return 0 }

func startGrid(b *testing.B) *grid {
	b.Helper()
	log, _ := openLog(b, b.TempDir())
	known := jobs{}
	for i := range gridWorkloads {
		w := gridWorkload(i)
		known[w.ID] = w
	}
	c, err := New(log, always(lenient{}), known, Config{Name: "bench", Log: slog.New(slog.DiscardHandler), Period: 50 * time.Millisecond})
	if err != nil {
		b.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	g := &grid{Controller: c}
	if g.client, err = rpc.Dial([]string{listener.Addr().String()}, nil); err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var parts sync.WaitGroup
	parts.Go(func() { _ = c.Run(ctx) })
	parts.Go(func() { _ = heap.Spend(ctx) }) // as psg serve does
	parts.Go(func() { _ = rpc.NewServer(c, c).Serve(ctx, listener, nil) })
	b.Cleanup(func() { g.client.Close(); stop(); parts.Wait() })
	g.seed(b)
	return g
}

// seed reports the nodes and waits until there is a first grant.
func (g *grid) seed(b *testing.B) {
	var nodes []psg.Delta
	for i := range gridNodes {
		n := testNode(psg.NodeID(fmt.Sprintf("node-%04d", i)))
		n.Capacity = psg.Resources{psg.CPU: 1 << 30, psg.Memory: 1 << 30, psg.MemoryMax: 1 << 30, psg.Disk: 1 << 30}
		nodes = append(nodes, psg.NodeChanged{Node: n})
	}
	for retry := time.NewTicker(time.Millisecond); ; <-retry.C {
		if _, _, leading := g.Position(); leading {
			break
		}
	}
	if err := g.Report(b.Context(), nodes); err != nil {
		b.Fatal(err)
	}
	g.call(b, gridWorkloads)
}

func gridWorkload(i int) psg.Workload { return workload(fmt.Sprintf("web-%d", i), "service", 16) }

// call places n asks in one call and fails unless all are granted.
func (g *grid) call(b *testing.B, n int) time.Duration {
	asks := make([]psg.Ask, n)
	for i := range asks {
		id := fmt.Sprintf("alloc-%08d", g.asked.Add(1))
		asks[i] = gate(gridWorkload(i%gridWorkloads), id, "")
	}
	began := time.Now()
	orders, _, err := g.client.PlaceAll(b.Context(), asks, 0)
	took := time.Since(began)
	if err != nil {
		b.Error(err)
		return took
	}
	for _, order := range orders {
		if order.Kind != psg.Grant {
			b.Errorf("order = %+v, want a grant", order)
			break
		}
	}
	return took
}

// BenchmarkDurable is the whole way of a decision: gRPC in, choice of a node,
// synced record, gRPC out. The policy allows everything: how fast policies are
// has benchmarks of its own. One iteration is one decision; callers keep it as
// busy as it can be.
func BenchmarkDurable(b *testing.B) {
	const callers, perCall = 8, 500
	g := startGrid(b)
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ResetTimer()
	began, spent := time.Now(), processorTime()
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			for !b.Failed() {
				n := min(perCall, left.Add(-perCall)+perCall)
				if n <= 0 {
					return
				}
				g.call(b, int(n))
			}
		})
	}
	group.Wait()
	b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "decisions/s")
	b.ReportMetric(float64((processorTime()-spent).Microseconds())/float64(b.N), "cpu-us/decision")
}

// processorTime is what this process has used so far, of all its processors:
// unlike the clock on the wall it does not count what else the machine does.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkDurableLatency is how long one call waits while 10,000 decisions a
// second are asked for, in calls of 50.
func BenchmarkDurableLatency(b *testing.B) {
	const perSecond, perCall = 10_000, 50
	g := startGrid(b)
	var mu sync.Mutex
	var took []time.Duration
	pace := time.NewTicker(time.Second * perCall / perSecond)
	defer pace.Stop()
	var group sync.WaitGroup
	for b.Loop() {
		<-pace.C
		if b.Failed() {
			break
		}
		group.Go(func() {
			one := g.call(b, perCall)
			mu.Lock()
			defer mu.Unlock()
			took = append(took, one)
		})
	}
	group.Wait()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}

// BenchmarkAppend is one synced record for each decision, on the same server.
func BenchmarkAppend(b *testing.B) {
	log, _ := openLog(b, b.TempDir())
	decided := psg.Placed{Placement: psg.Placement{Ask: gate(gridWorkload(0), "alloc", "n"), Node: "n", State: psg.Granted, Since: start}}
	sequence := uint64(0)
	for b.Loop() {
		sequence++
		record := psg.Record{Sequence: sequence, Epoch: 1, At: start, Deltas: []psg.Delta{decided}}
		if err := log.Append(b.Context(), record); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
}
