package placement

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

// load is a cluster in steady state: what is placed replaces what is oldest.
type steady struct {
	*cluster
	rng       *rand.Rand
	workloads []psg.Workload
	running   []psg.RequestID // oldest first
	serial    int
}

// newSteady makes nodes of four hardware classes in ten racks and two zones,
// and workloads in as many classes as said: mixed requests, one constraint or
// two, an affinity here and there, a fifth of them on GPUs, each under four
// policies' bitmaps; and fills the nodes that qualify to about half.
func newSteady(tb testing.TB, nodes, classes int) *steady {
	tb.Helper()
	s := &steady{cluster: newCluster(Config{IndexMB: 2048}), rng: rand.New(rand.NewPCG(42, uint64(nodes)))}
	for i := range nodes {
		s.addNode(i)
	}
	for i := range classes {
		s.addWorkload(i)
	}
	for cpu := int64(0); cpu < int64(nodes)*11_000; {
		for _, p := range s.commit(s.asks(max(100, nodes/10))...).Placements {
			s.running = append(s.running, p.Ask.ID)
			cpu += p.Request[psg.CPU]
		}
	}
	return s
}

func (s *steady) addNode(i int) {
	kind := i % 4
	n := psg.Node{
		ID: psg.NodeID(fmt.Sprintf("node-%05d", i)), Datacenter: fmt.Sprintf("dc%d", i%2+1), Ready: true,
		Class:      []string{"small", "large", "gpu", "io"}[kind],
		Attributes: map[string]string{"kernel.name": "linux", "cpu.arch": "amd64", "os.version": fmt.Sprintf("22.%d", i%3), "rack": fmt.Sprintf("r%d", i%10)},
		Meta:       map[string]string{"zone": fmt.Sprintf("z%d", i%2)},
		Capacity:   psg.Resources{psg.CPU: 32_000, psg.Memory: 128_000, psg.Disk: 1_000_000},
	}
	if kind == 2 {
		for g := range 8 {
			n.Devices = append(n.Devices, psg.Device{
				ID: psg.DeviceID(fmt.Sprintf("%s-%d", n.ID, g)), Vendor: "nvidia", Type: "gpu", Model: "A100", MemoryMB: 81920, NUMA: g / 4, Healthy: true,
			})
		}
	}
	s.rows = append(s.rows, n.ID)
	s.Apply(psg.NodeChanged{Node: n})
}

func (s *steady) addWorkload(i int) {
	w := plainWorkload(fmt.Sprintf("job-%05d", i), 1000)
	w.Request = psg.Resources{psg.CPU: int64(500 * (1 + i%6)), psg.Memory: int64(512 * (1 + i%7)), psg.Disk: 300}
	w.Constraints = []psg.Constraint{
		{Left: "${attr.kernel.name}", Operator: psg.Equal, Right: "linux"},
		{Left: "${attr.os.version}", Operator: psg.Version, Right: ">= 22.1"},
	}
	switch i % 5 {
	case 0:
		w.Constraints = append(w.Constraints, psg.Constraint{Left: "${meta.zone}", Operator: psg.Equal, Right: fmt.Sprintf("z%d", i/5%2)})
	case 1:
		w.Affinities = []psg.Affinity{{Constraint: psg.Constraint{Left: "${node.class}", Operator: psg.Equal, Right: "large"}, Weight: 50}}
	case 2:
		w.Devices = []psg.DeviceAsk{{Name: "gpu", Count: 1, MilliGPU: []int64{250, 500, 1000}[i/5%3]}}
	}
	s.workloads = append(s.workloads, w)
	s.Apply(psg.WorkloadChanged{Workload: w})
	r := &psg.Ruling{Workload: w.ID}
	for policy := range 4 {
		rows, favour := psg.NewBitmap(len(s.rows)), psg.NewBitmap(len(s.rows))
		for row := range s.rows {
			if (row*7+i*13+policy*29)%23 == 0 {
				rows.Set(row)
			}
			if (row*11+i*17+policy*31)%19 < 6 {
				favour.Set(row)
			}
		}
		source := fmt.Sprintf("policy p%d", policy)
		r.Denials = append(r.Denials, psg.Denial{Reason: psg.Reason{Source: source, Text: "denied"}, Rows: rows})
		r.Scorings = append(r.Scorings, psg.Scoring{Reason: psg.Reason{Source: source, Text: "favoured"}, Points: int64(10 * (policy + 1)), Rows: favour})
	}
	s.rulings[w.ID] = r
}

func (s *steady) asks(n int) []psg.Ask {
	asks := make([]psg.Ask, n)
	for i := range asks {
		s.serial++
		w := &s.workloads[s.rng.IntN(len(s.workloads))]
		asks[i] = psg.Ask{ID: psg.RequestID(fmt.Sprintf("ask-%010d", s.serial)), Workload: w.ID, At: at.Add(time.Duration(s.serial))}
	}
	return asks
}

// turnOver commits a plan and completes as much as it placed.
func (s *steady) turnOver(plan psg.Plan) {
	for _, p := range plan.Placements {
		s.Apply(psg.Placed{Placement: p})
		s.running = append(s.running, p.Ask.ID)
		s.Apply(psg.Freed{Ask: s.running[0], State: psg.Released, At: at})
		s.running = s.running[1:]
	}
}

// sustain measures decisions per second, in cycles of 500 asks.
func sustain(b *testing.B, s *steady, solve func(Problem) psg.Plan) {
	const cycle = 500
	s.turnOver(s.solve(s.asks(2 * len(s.workloads))...)) // every class has its order
	decided := 0
	b.ResetTimer()
	for b.Loop() {
		b.StopTimer()
		p := Problem{Now: at, Asks: s.asks(cycle), Rows: s.rows, Rulings: s.rulings}
		b.StartTimer()
		plan := solve(p)
		s.turnOver(plan)
		decided += len(plan.Placements)
		if len(plan.Placements) < cycle*9/10 {
			b.Fatalf("%d of %d placed: no steady state; %s", len(plan.Placements), cycle, summaries(plan))
		}
	}
	b.ReportMetric(float64(decided)/b.Elapsed().Seconds(), "decisions/s")
}

func BenchmarkSolve(b *testing.B) {
	for _, nodes := range []int{1000, 5000, 10_000, 50_000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			s := newSteady(b, nodes, 60)
			sustain(b, s, s.Solve)
		})
	}
	for _, classes := range []int{1000, 10_000} {
		b.Run(fmt.Sprintf("nodes=5000/classes=%d", classes), func(b *testing.B) {
			s := newSteady(b, 5000, classes)
			sustain(b, s, s.Solve)
		})
	}
}

// BenchmarkLatency is one ask per cycle, committed at once.
func BenchmarkLatency(b *testing.B) {
	for _, nodes := range []int{1000, 5000, 50_000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			s := newSteady(b, nodes, 60)
			s.turnOver(s.solve(s.asks(2 * len(s.workloads))...))
			var took []time.Duration
			for b.Loop() {
				asks := s.asks(1)
				start := time.Now()
				plan := s.solve(asks...)
				took = append(took, time.Since(start))
				s.turnOver(plan)
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
		})
	}
}

// BenchmarkBatch is 100,000 asks on 10,000 nodes in one cycle.
func BenchmarkBatch(b *testing.B) {
	s := newSteady(b, 10_000, 60)
	for _, id := range s.running {
		s.Apply(psg.Freed{Ask: id, State: psg.Released, At: at})
	}
	asks := s.asks(100_000)
	placed := 0
	for b.Loop() {
		placed = len(s.solve(asks...).Placements)
	}
	b.ReportMetric(float64(placed), "placed")
}

// BenchmarkImprove is a look for moves that has 100 ms: by how much the longest
// took longer, and what a look found.
func BenchmarkImprove(b *testing.B) {
	s := newSteady(b, 10_000, 60)
	longest, moves := time.Duration(0), 0
	for seed := uint64(0); b.Loop(); seed += 997 {
		start := time.Now()
		stop := func() bool { return time.Since(start) > 100*time.Millisecond }
		moves += len(s.Improve(Problem{Now: at, Seed: seed, Rows: s.rows, Rulings: s.rulings, Stop: stop}, 8).Moves)
		longest = max(longest, time.Since(start)-100*time.Millisecond)
	}
	b.ReportMetric(float64(longest.Microseconds())/1000, "longest-over-ms")
	b.ReportMetric(float64(moves)/float64(b.N), "moves")
}

// plainScan solves a problem as a scheduler without any memory would: for each
// ask it judges every node from scratch and looks at each once.
func (s *steady) plainScan(p Problem) psg.Plan {
	s.dropOrder()
	var plan psg.Plan
	for _, ask := range p.Asks {
		forget(s.shapeOf(s.Engine.workloads[ask.Workload]).filter)
		one := p
		one.Asks = []psg.Ask{ask}
		next := s.Solve(one)
		for _, placed := range next.Placements {
			s.Apply(psg.Placed{Placement: placed})
		}
		plan.Placements = append(plan.Placements, next.Placements...)
		plan.Refusals = append(plan.Refusals, next.Refusals...)
	}
	return plan
}

// dropOrder takes away every order of candidates, and the memory for new ones.
func (s *steady) dropOrder() {
	s.cfg.IndexMB = -1
	for _, sh := range s.shapes {
		for _, c := range sh.classes {
			s.dropClass(c)
			*c = class{shape: c.shape, judged: c.judged, users: c.users, used: c.used}
		}
	}
}

// forget makes a filter judge every node anew.
func forget(f *filter) {
	for i := range f.verdicts {
		f.verdicts[i].spec = 0
	}
}

// BenchmarkScan is the plain scan; /remembered keeps the filters' verdicts, so
// that only capacity, cards and scores are looked at for every node.
func BenchmarkScan(b *testing.B) {
	for _, nodes := range []int{1000, 5000, 10_000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			s := newSteady(b, nodes, 60)
			sustain(b, s, s.plainScan)
		})
	}
	b.Run("nodes=5000/remembered", func(b *testing.B) {
		s := newSteady(b, 5000, 60)
		s.dropOrder()
		sustain(b, s, s.Solve)
	})
}

func TestSolve_EqualsThePlainScan(t *testing.T) {
	fast, slow := newSteady(t, 120, 60), newSteady(t, 120, 60)
	for range 5 {
		p := Problem{Now: at, Asks: fast.asks(100), Rows: fast.rows, Rulings: fast.rulings}
		slow.asks(100)
		got, want := fast.Solve(p), slow.plainScan(p)
		if a, b := mustJSON(t, got.Placements), mustJSON(t, want.Placements); a != b {
			t.Fatalf("%s\nplain scan:\n%s", a, b)
		}
		fast.turnOver(got)
		slow.turnOver(want)
	}
}
