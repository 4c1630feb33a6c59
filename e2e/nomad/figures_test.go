package nomad_test

import (
	"flag"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

// instances is how many a figure registers: 200 need 12 GB, and a minute on two
// cores.
var instances = flag.Int("instances", 40, "instances of the job that BenchmarkNomad registers")

// BenchmarkNomad prints the figures of PSG beside a real Nomad, in one run:
// registration to running with a gate through the proxy against no gate and no
// proxy, and what the proxy adds to a request that passes.
func BenchmarkNomad(b *testing.B) {
	nomadBinary(b)
	b.Run("one run", func(b *testing.B) {
		done := false
		for b.Loop() {
			if done {
				continue
			}
			done = true
			testing.RunTests(func(_, _ string) (bool, error) { return true, nil }, []testing.InternalTest{{
				Name: "figures", F: func(t *testing.T) { figures(t, b) },
			}})
		}
	})
}

func figures(t *testing.T, b *testing.B) {
	big := node{cpu: 60_000, memory: 60_000, class: "b"}
	g := openRegion(t, layout{nodes: []node{big, big, big}})
	through, address := g.proxied()
	count := *instances
	var alone, gatedBy []time.Duration
	for i := range 3 {
		alone = append(alone, g.toRunning(g.client, sleeper(fmt.Sprint("alone", i), count, 50, 32)))
		gatedBy = append(gatedBy, g.toRunning(through, gated(fmt.Sprint("gated", i), count, classB())))
	}
	slices.Sort(alone)
	slices.Sort(gatedBy)
	b.ReportMetric(alone[1].Seconds(), "s/alone")
	b.ReportMetric(gatedBy[1].Seconds(), "s/through-psg")
	b.ReportMetric(gatedBy[1].Seconds()/alone[1].Seconds(), "x")
	b.ReportMetric(float64(g.requests(address)-g.requests(g.address))/float64(time.Microsecond), "µs/passed-request")
	lags := g.lags()
	b.ReportMetric(float64(lags[len(lags)*99/100])/float64(time.Millisecond), "ms/lag-p99")
	b.ReportMetric(float64(lags[len(lags)/2])/float64(time.Millisecond), "ms/lag-p50")
	t.Logf("count %d: alone %v, through PSG %v", count, alone, gatedBy)
}

// toRunning registers a job, waits until all of it runs, and ends it.
func (g *grid) toRunning(by *api.Client, job *api.Job) time.Duration {
	g.Helper()
	start := time.Now()
	if _, _, err := by.Jobs().Register(job, nil); err != nil {
		g.Fatal(err)
	}
	g.until(3*time.Minute, *job.ID+" runs", func() bool { return g.total(g.runningOn(*job.ID)) == *job.TaskGroups[0].Count })
	took := time.Since(start)
	g.purge(*job.ID)
	return took
}

// requests is the median time of a small read.
func (g *grid) requests(address string) time.Duration {
	g.Helper()
	var took []time.Duration
	for range 400 {
		start := time.Now()
		response, err := http.Get(address + "/v1/status/leader")
		if err != nil {
			g.Fatal(err)
		}
		response.Body.Close()
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// lags are the times from a change in Nomad to the controller's account of it,
// sorted. What the polling costs is in them.
func (g *grid) lags() []time.Duration {
	g.Helper()
	var lags []time.Duration
	for i := range 100 {
		ready := i%2 == 1
		if _, err := g.client.Nodes().ToggleEligibility(g.nodes[0], ready, nil); err != nil {
			g.Fatal(err)
		}
		start := time.Now()
		for {
			var node psg.Node
			g.get("/v1/node/"+g.nodes[0], &node)
			if node.ID != "" && node.Ready == ready {
				break
			}
			if time.Since(start) > 10*time.Second {
				g.Fatal("the controller does not follow")
			}
		}
		lags = append(lags, time.Since(start))
	}
	slices.Sort(lags)
	return lags
}
