package nomad_test

import (
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
)

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
	big := client{cpu: 60_000, memory: 60_000, class: "b"}
	g := startGrid(t, big, big, big)
	through, address := g.proxied()
	count := 40
	if runtime.NumCPU() >= 8 {
		count = 200
	}
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
