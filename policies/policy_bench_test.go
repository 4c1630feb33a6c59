package policies

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

// BenchmarkPolicy rules on workloads of 60 known classes, all four policies over
// all nodes: deny and score for each.
//
//   - opa judges a sample of 100 nodes of the cluster, whose time is scaled to all
//     of them.
//   - psg is what a controller sees: between one cycle of 60 decisions and the
//     next the telemetry of every node changes. Taking that in is BenchmarkIngest's.
//   - unchanged is psg where nothing has changed.
//   - alone is psg where a decision shares nothing with others: it combines every
//     bitmap of its policies for itself, as if there were but one class.
func BenchmarkPolicy(b *testing.B) {
	for _, nodes := range []int{1000, 5000, 10000} {
		s, windows := fleet(rand.New(rand.NewPCG(1, 1)), nodes)
		workloads := askers(60)
		decide := func(before func(set *Set, i int) *psg.Snapshot) func(b *testing.B) {
			return func(b *testing.B) { benchDecisions(b, fed(b, Config{}, windows, s), workloads, s, before) }
		}
		b.Run(fmt.Sprintf("opa/nodes=%d", nodes), func(b *testing.B) { benchOPA(b, windows, workloads, s) })
		cycles := measuredAnew(s, 4)
		b.Run(fmt.Sprintf("psg/nodes=%d", nodes), decide(func(set *Set, i int) *psg.Snapshot {
			if i%len(workloads) == 0 {
				set.table.mu.Lock()
				set.takeIn(b.Context(), set.viewer.of(cycles[i/len(workloads)%len(cycles)], set.fed.Load()))
				set.table.mu.Unlock()
			}
			return cycles[i/len(workloads)%len(cycles)]
		}))
		b.Run(fmt.Sprintf("unchanged/nodes=%d", nodes), decide(func(*Set, int) *psg.Snapshot { return s }))
		b.Run(fmt.Sprintf("alone/nodes=%d", nodes), decide(func(set *Set, i int) *psg.Snapshot {
			combineAnew(set, workloads[i%len(workloads)])
			return s
		}))
	}
}

// benchDecisions times decisions on the snapshots that before gives, without
// what before does.
func benchDecisions(b *testing.B, set *Set, workloads []*psg.Workload, s *psg.Snapshot, before func(*Set, int) *psg.Snapshot) {
	for _, w := range workloads {
		rule(b, set, w, s)
	}
	var took time.Duration
	for i := 0; b.Loop(); i++ {
		view := before(set, i)
		began := time.Now()
		rule(b, set, workloads[i%len(workloads)], view)
		took += time.Since(began)
	}
	b.ReportMetric(float64(took.Nanoseconds())/float64(b.N), "ns/decision")
	b.ReportMetric(0, "ns/op") // of what before does too
}

func benchOPA(b *testing.B, windows map[string]any, workloads []*psg.Workload, s *psg.Snapshot) {
	oracle := Oracle
	set := fed(b, Config{MaxTier: &oracle, Workers: 1}, windows, s)
	const sample = 100
	some := *s
	some.Nodes = nil
	for i := range sample {
		some.Nodes = append(some.Nodes, s.Nodes[i*len(s.Nodes)/sample])
	}
	for i := 0; b.Loop(); i++ {
		w := *workloads[i%len(workloads)]
		w.Version = 0 // nothing is remembered
		rule(b, set, &w, &some)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)*float64(len(s.Nodes))/sample, "ns/decision")
}

// fed is the four policies with an answer of their CMDB.
func fed(b testing.TB, config Config, windows map[string]any, s *psg.Snapshot) *Set {
	b.Helper()
	config.Timeout = time.Minute
	set := fourPolicies(b, config)
	if err := set.Feed("cmdb", windows, s.At); err != nil {
		b.Fatal(err)
	}
	return set
}

// measuredAnew are snapshots of a cluster in which nothing but the telemetry of
// every node is different.
func measuredAnew(s *psg.Snapshot, n int) []*psg.Snapshot {
	r := rand.New(rand.NewPCG(2, 2))
	out := make([]*psg.Snapshot, n)
	for i := range out {
		next := *s
		next.Nodes = slices.Clone(s.Nodes)
		next.At = s.At.Add(time.Duration(i+1) * 500 * time.Millisecond)
		for row := range next.Nodes {
			next.Nodes[row].Telemetry = measured(r)
		}
		out[i] = &next
	}
	return out
}

// combineAnew has a set forget what it has combined for a workload's class.
func combineAnew(set *Set, w *psg.Workload) {
	for _, part := range set.classes[w.ID].parts {
		if part.program == nil {
			continue
		}
		part.program.tick, part.program.made = 0, 0
		for _, clause := range part.program.denials {
			clause.when.tick, clause.when.made = 0, 0
		}
		for _, g := range part.program.scores {
			g.tick, g.made, g.when.tick, g.when.made = 0, 0, 0, 0
		}
	}
}
