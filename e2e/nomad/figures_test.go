package nomad_test

import (
	"cmp"
	"flag"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

// instances is how many a figure registers.
var instances = flag.Int("instances", 0, "instances of the job that BenchmarkNomad registers; 200, or 40 where there are less than 16 GB of memory, if 0")

// countable is how many instances this machine has memory for: one takes 60 MB,
// most of it Nomad's executor.
func countable() int {
	text, err := os.ReadFile("/proc/meminfo")
	for line := range strings.Lines(string(text)) {
		var kB int
		if _, scan := fmt.Sscanf(line, "MemAvailable: %d kB", &kB); err == nil && scan == nil && kB > 16<<20 {
			return 200
		}
	}
	return 40
}

// BenchmarkNomad prints the figures of PSG beside a real Nomad, in one run:
// registration to running with a gate through the proxy against no gate and no
// proxy, what the proxy adds to a request that passes, how late the controller
// is, and what a placement costs Nomad's servers.
func BenchmarkNomad(b *testing.B) {
	nomadBinary(b)
	b.Run("one run", func(b *testing.B) { once(b, func(t *testing.T) { figures(t, b) }) })
}

// once measures a single time, however often the benchmark is to run: with a test's
// help, which a benchmark has not.
func once(b *testing.B, measure func(*testing.T)) {
	done := false
	for b.Loop() {
		if done {
			continue
		}
		done = true
		testing.RunTests(func(_, _ string) (bool, error) { return true, nil }, []testing.InternalTest{{Name: b.Name(), F: measure}})
	}
}

func figures(t *testing.T, b *testing.B) {
	big := node{cpu: 60_000, memory: 60_000, class: "b"}
	g := openRegion(t, layout{nodes: []node{{cpu: 1000, memory: 1000, class: "a"}, big, big, big}})
	through, address := g.proxied()
	count := cmp.Or(*instances, countable())
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
	for name, one := range map[string]struct {
		by  *api.Client
		job func(string) *api.Job
	}{
		"alone": {g.client, func(id string) *api.Job {
			job := gated(id, 1, nil)
			job.TaskGroups[0].Tasks = job.TaskGroups[0].Tasks[:1]
			return job
		}},
		"gated-alone":   {g.client, func(id string) *api.Job { return gated(id, 1, map[string]any{"kind": "service"}) }},
		"through-proxy": {through, func(id string) *api.Job { return gated(id, 1, classB()) }},
		"elsewhere":     {g.client, drawnToA},
	} {
		versions, writes := g.costs(one.by, name, one.job)
		b.ReportMetric(versions, "versions/"+name)
		b.ReportMetric(writes, "raft-writes/"+name)
	}
	_, idle := newCrowd(t, 1, 1, 0).resident(t)
	_, most := newCrowd(t, 1000, 500, 10_000).resident(t)
	b.ReportMetric(float64(most-idle), "MiB/10000-allocations")
	t.Logf("count %d: alone %v, through PSG %v", count, alone, gatedBy)
}

// costs is the mean, over a few placements of one instance, of the job versions
// and of the writes to the servers' log from registration to a deployment that
// is done.
func (g *grid) costs(by *api.Client, name string, job func(string) *api.Job) (versions, writes float64) {
	g.Helper()
	const times = 5
	for i := range times {
		id := fmt.Sprint(name, i)
		before := g.raftIndex()
		if _, _, err := by.Jobs().Register(job(id), nil); err != nil {
			g.Fatal(err)
		}
		g.settled(id, 1)
		writes += float64(g.raftIndex()-before) / times
		versions += float64(*g.job(id).Version+1) / times
		g.purge(id)
	}
	return versions, writes
}

// raftIndex is where the servers' log ends.
func (g *grid) raftIndex() int {
	g.Helper()
	self, err := g.client.Agent().Self()
	if err != nil {
		g.Fatal(err)
	}
	index, err := strconv.Atoi(self.Stats["raft"]["last_log_index"])
	if err != nil {
		g.Fatal(err)
	}
	return index
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
