package nomad_test

import (
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

// BenchmarkMove prints what a move costs, by its order: the gap in which neither
// instance ran, job versions, and entries of Nomad's raft log.
func BenchmarkMove(b *testing.B) {
	nomadBinary(b)
	for _, order := range []psg.MoveOrder{psg.StopFirst, psg.StartFirst} {
		b.Run(string(order), func(b *testing.B) { once(b, func(t *testing.T) { movesCost(t, b, order) }) })
	}
}

func movesCost(t *testing.T, b *testing.B, order psg.MoveOrder) {
	g := use(t)
	job := shiftable("costs", 4)
	job.TaskGroups[0].Tasks[1].Config["disruption"] = map[string]any{"max_unavailable": 1, "order": string(order)}
	g.register(job)
	g.settled("costs", 4)
	from := g.busiest("costs")
	if _, err := g.client.Nodes().ToggleEligibility(from, false, nil); err != nil {
		t.Fatal(err)
	}
	before, version, start := g.raftIndex(), *g.job("costs").Version, time.Now()
	made, err := g.rebalance(t, "-empty", "-wait", "60s", from)
	took := time.Since(start)
	if err != nil || len(made.Moves) == 0 {
		t.Fatalf("%v: %+v", err, made)
	}
	g.until(30*time.Second, "the deployments are over", func() bool {
		last, _, err := g.client.Jobs().LatestDeployment("costs", nil)
		return err == nil && (last == nil || last.Status != api.DeploymentStatusRunning)
	})
	moves := float64(len(made.Moves))
	var gap time.Duration
	for _, m := range made.Moves {
		gap += m.Gap
	}
	b.ReportMetric(float64(gap)/moves/float64(time.Millisecond), "ms/gap")
	b.ReportMetric(float64(*g.job("costs").Version-version)/moves, "versions/move")
	b.ReportMetric(float64(g.raftIndex()-before)/moves, "raft-entries/move")
	b.ReportMetric(took.Seconds()/moves, "s/move")
	b.ReportMetric(moves, "moves")
	g.purge("costs")
}
