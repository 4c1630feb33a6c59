package policies

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// BenchmarkPolicy rules on one workload over all nodes with nothing remembered,
// for the three policies of the tests. ns/pair is for all policies together.
func BenchmarkPolicy(b *testing.B) {
	for _, nodes := range []int{1000} {
		b.Run(fmt.Sprintf("opa/nodes=%d", nodes), func(b *testing.B) {
			set := everythingSet(b)
			view := randomCluster(rand.New(rand.NewPCG(1, 1)), nodes)
			w := gpuJob("training", 1)
			w.Version = 0
			rule(b, set, w, view)
			for b.Loop() {
				rule(b, set, w, view)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*nodes), "ns/pair")
		})
	}
}

// BenchmarkCycle rules on one workload when one node in a hundred has changed.
func BenchmarkCycle(b *testing.B) {
	set, err := Load("library/gpu_colocation")
	if err != nil {
		b.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 1))
	view := randomCluster(r, 1000)
	w := gpuJob("training", 1)
	rule(b, set, w, view)
	for b.Loop() {
		next := *view
		next.Nodes = append(next.Nodes[:0:0], view.Nodes...)
		for range 10 {
			randomNode(r, &next.Nodes[r.IntN(1000)])
		}
		view = &next
		rule(b, set, w, view)
	}
}
