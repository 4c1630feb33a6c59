package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/bus"
	"github.com/psgrid/psg/ledger"
)

// countingLog counts the records that are replayed.
type countingLog struct {
	Log
	replayed int
}

func (l *countingLog) Replay(ctx context.Context, after uint64, fold func(psg.Record) error) error {
	return l.Log.Replay(ctx, after, func(r psg.Record) error {
		l.replayed++
		return fold(r)
	})
}

// imaged returns a controller that is to start from a bus's log and images.
func imaged(t testing.TB, transport *bus.Bus, every int) (*Controller, *countingLog) {
	t.Helper()
	log := &countingLog{Log: transport.Ledger()}
	web := workload("web", "service", 1)
	c, err := New(log, always(lenient{}), jobs{web.ID: web}, Config{
		Name: "test", Log: slog.New(slog.DiscardHandler), Period: time.Millisecond, Images: transport.Images(), ImageEvery: every,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c, log
}

func TestRun_StartsFromTheNewestImage(t *testing.T) {
	dir := t.TempDir()
	transport, stop := openBus(t, dir)
	first, _ := imaged(t, transport, 10)
	ctx, end := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- first.Run(ctx) }()
	await(t, "first leads", func() bool { return first.leads() })
	big := testNode("n1")
	big.Capacity[psg.CPU] = 1 << 20
	if err := first.Report(t.Context(), []psg.Delta{psg.NodeChanged{Node: big}}); err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		if _, _, err := first.Place(t.Context(), []psg.Ask{gate(workload("web", "service", 1), fmt.Sprint("a", i), "n1")}, 0); err != nil {
			t.Fatal(err)
		}
	}
	var newest uint64
	await(t, "images are kept", func() bool {
		err := transport.Images().Restore(t.Context(), func(i psg.Image) error { newest = i.Sequence; return nil })
		return err == nil && newest > 10
	})
	end()
	if err := <-ran; err != nil {
		t.Fatal(err)
	}
	want := first.Asks()
	whole, _, _ := first.Position()
	stop()

	transport, _ = openBus(t, dir)
	second, log := imaged(t, transport, 10)
	if err := second.Lead(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if diff := diffJSON(t, want, second.Asks()); diff != "" {
		t.Errorf("the second controller knows something else (-first +second):\n%s", diff)
	}
	if log.replayed > int(whole-newest) {
		t.Errorf("%d of %d records were replayed after an image of record %d", log.replayed, whole, newest)
	}
}

// TestLead_ReadsTheWholeLogWhenNoImageLeadsToItsEnd has images that are sound
// and of another log: of a record it does not have, and of another past.
func TestLead_ReadsTheWholeLogWhenNoImageLeadsToItsEnd(t *testing.T) {
	for name, image := range map[string]psg.Image{
		"ahead":        {Sequence: 99, Epoch: 1},
		"another past": {Sequence: 1, Epoch: 7},
	} {
		t.Run(name, func(t *testing.T) {
			transport, _ := openBus(t, t.TempDir())
			for range 2 {
				first, _ := imaged(t, transport, 0)
				if err := first.Lead(t.Context(), start); err != nil {
					t.Fatal(err)
				}
			}
			if err := transport.Images().Save(t.Context(), image); err != nil {
				t.Fatal(err)
			}
			second, log := imaged(t, transport, 0)
			if err := second.Lead(t.Context(), start); err != nil {
				t.Fatal(err)
			}
			if _, epoch, _ := second.Position(); epoch != 3 || log.replayed < 2 {
				t.Errorf("epoch %d after %d records, want the whole log", epoch, log.replayed)
			}
		})
	}
}

func TestRun_ReportsALogThatCannotBeFolded(t *testing.T) {
	log := tempLog(t)
	if err := log.Append(t.Context(), psg.Record{Sequence: 1, Epoch: 1, At: start}); err != nil {
		t.Fatal(err)
	}
	c, err := New(log, always(lenient{}), jobs{}, Config{Name: "test", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Run(t.Context()); err == nil || errors.Is(err, psg.ErrUnavailable) {
		t.Errorf("Run = %v, want why the log is broken", err)
	}
}

// cluster is the state of many nodes and placements.
func cluster(b *testing.B, nodes, placements int) *ledger.State {
	b.Helper()
	s := ledger.New()
	deltas := []psg.Delta{psg.Led{Epoch: 1, Leader: "bench"}}
	for i := range nodes {
		n := testNode(psg.NodeID(fmt.Sprintf("node-%05d", i)))
		n.Capacity[psg.CPU] = 1 << 20
		n.Attributes = map[string]string{}
		for a := range 20 {
			n.Attributes[fmt.Sprintf("attribute.%d", a)] = fmt.Sprintf("value-%d", a*i%7)
		}
		deltas = append(deltas, psg.NodeChanged{Node: n})
	}
	for i := range 200 {
		deltas = append(deltas, psg.WorkloadChanged{Workload: workload(fmt.Sprint("web-", i), "service", 1)})
	}
	for i := range placements {
		ask := gate(workload(fmt.Sprint("web-", i%200), "service", 1), fmt.Sprintf("3f2b8a54-0000-0000-0000-%012d", i), psg.NodeID(fmt.Sprintf("node-%05d", i%nodes)))
		deltas = append(deltas, psg.Asked{Ask: ask}, psg.Placed{Placement: psg.Placement{
			Ask: ask, Node: ask.Node, State: psg.Granted, Request: psg.Resources{psg.CPU: 100, psg.Memory: 1, psg.MemoryMax: 1}, Since: start,
			Score: []psg.ScorePart{{Name: "binpack", Points: 1}, {Name: "spread", Points: 2}},
		}})
	}
	if err := s.Apply(psg.Record{Sequence: 1, Epoch: 1, At: start, Deltas: deltas}); err != nil {
		b.Fatal(err)
	}
	return s
}

// imagedCluster saves an image of a cluster on a bus of its own, whose log goes
// on with records of 2,000 deltas: asks placed and freed.
func imagedCluster(b *testing.B, nodes, placements, tail int) *bus.Bus {
	b.Helper()
	transport, _ := openBus(b, b.TempDir())
	began := time.Now()
	image := cluster(b, nodes, placements).Image()
	record := psg.Record{Sequence: 1, Epoch: 1, At: start, Deltas: []psg.Delta{psg.Led{Epoch: 1, Leader: "bench"}}}
	for i := 0; ; i++ {
		if err := transport.Ledger().Append(b.Context(), record); err != nil {
			b.Fatal(err)
		}
		if i == 0 {
			if err := transport.Images().Save(b.Context(), image); err != nil {
				b.Fatal(err)
			}
			b.Logf("state built and saved in %s", time.Since(began))
		}
		if tail -= 2000; tail < 0 {
			return transport
		}
		record.Sequence, record.Deltas = record.Sequence+1, nil
		for j := range 2000 / 2 {
			ask := gate(workload("web-1", "service", 1), fmt.Sprintf("tail-%d-%d", i, j), "node-00001")
			record.Deltas = append(record.Deltas, psg.Asked{Ask: ask}, psg.Freed{Ask: ask.ID, State: psg.Released, At: start})
		}
	}
}

// BenchmarkStart is a controller that takes the lead with an image of 100,000
// placements on 10,000 nodes and a tail of 20,000 deltas.
func BenchmarkStart(b *testing.B) {
	transport := imagedCluster(b, 10_000, 100_000, 20_000)
	for b.Loop() {
		c, _ := imaged(b, transport, 1<<30)
		if err := c.Lead(b.Context(), start); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReplay is how fast a log is read that has no image.
func BenchmarkReplay(b *testing.B) {
	const deltas = 200_000
	transport := imagedCluster(b, 1, 0, deltas)
	for b.Loop() {
		if err := transport.Ledger().Replay(b.Context(), 0, ledger.New().Apply); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*deltas/b.Elapsed().Seconds(), "deltas/s")
}

// BenchmarkMemory is what a leader keeps of 5,000 nodes and 100,000 placements,
// its embedded bus included.
func BenchmarkMemory(b *testing.B) {
	transport := imagedCluster(b, 5_000, 100_000, 0)
	for b.Loop() {
		c, _ := imaged(b, transport, 1<<30)
		if err := c.Lead(b.Context(), start); err != nil {
			b.Fatal(err)
		}
		var memory runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&memory)
		b.ReportMetric(float64(memory.HeapAlloc>>20), "heap-MiB")
		runtime.KeepAlive(c)
	}
}
