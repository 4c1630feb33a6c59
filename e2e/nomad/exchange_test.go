package nomad_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

// TestExchange puts each of two jobs on the node that the other is drawn to. Neither
// fits beside the other, and a third node has room for one: idle cycles put both
// right, by way of it. One of them starts others first.
func TestExchange(t *testing.T) {
	g := use(t)
	left, right := g.nodes[0], g.nodes[1]
	g.onlyOn(left)
	a := drawnTo(right, shiftable("a", 1))
	g.register(a)
	g.eventually("a runs on the left", func() bool { return g.runningOn("a")[psg.NodeID(left)] == 1 })
	g.onlyOn(right)
	b := drawnTo(left, gated("b", 1, map[string]any{"disruption": map[string]any{"order": "stop_first"}}))
	g.register(b)
	g.eventually("b runs on the right", func() bool { return g.runningOn("b")[psg.NodeID(right)] == 1 })
	g.onlyOn(g.nodes...)

	fewest := sync.OnceValue(g.fewest("a", 1))
	t.Cleanup(func() { fewest() })
	g.controller.More = []string{"-improve", "1s"}
	t.Cleanup(func() {
		g.controller.More = nil
		g.restart(t)
	})
	g.restart(t)
	g.eventually("a runs on the right, and b on the left", func() bool {
		return g.runningOn("a")[psg.NodeID(right)] == 1 && g.runningOn("b")[psg.NodeID(left)] == 1
	})
	if fewest() < 1 {
		t.Error("a was stopped before another ran")
	}
	g.eventually("both are deployed, and nothing is on its way", func() bool { return g.deployed("a") && g.deployed("b") && g.asksRun() })
	g.steady("a", 3*time.Second)
	g.steady("b", time.Second)
	for line := range strings.Lines(g.controller.Output()) {
		if strings.Contains(line, "move ended") || strings.Contains(line, "exchange") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

// deployed reports whether nothing of a job is being deployed, moved, or left to be
// stopped.
func (g *grid) deployed(job string) bool {
	last, _, err := g.client.Jobs().LatestDeployment(job, nil)
	return err == nil && last != nil && last.Status == api.DeploymentStatusSuccessful && len(g.allocs(job)) == 1 &&
		*g.job(job).TaskGroups[0].Update.Canary == 0 // no steady hint yet, else
}

// asksRun reports whether all that holds room are allocations that run.
func (g *grid) asksRun() bool {
	var asks []psg.AskStatus
	g.get("/v1/asks", &asks)
	return len(asks) > 0 && !slices.ContainsFunc(asks, func(s psg.AskStatus) bool {
		return !s.Over() && (s.Ask.Alloc == "" || s.State != psg.Running)
	})
}

// eventually is until with time enough for any machine.
func (g *grid) eventually(what string, done func() bool) {
	g.Helper()
	g.until(5*time.Minute, what, done)
}

// drawnTo has a job drawn to a node, where it fills most of the room.
func drawnTo(node string, job *api.Job) *api.Job {
	job.Affinities = []*api.Affinity{api.NewAffinity("${node.unique.id}", "=", node, 100)}
	job.TaskGroups[0].Tasks[0].Resources.CPU = new(5000)
	return job
}

// onlyOn has work start on some nodes only, and waits until the controller knows.
func (g *grid) onlyOn(nodes ...string) {
	g.Helper()
	for _, id := range g.nodes {
		if _, err := g.client.Nodes().ToggleEligibility(id, slices.Contains(nodes, id), nil); err != nil {
			g.Fatal(err)
		}
	}
	g.eventually("the controller knows where work may start", func() bool {
		var known []psg.Node
		g.get("/v1/nodes", &known)
		return len(known) == len(g.nodes) && !slices.ContainsFunc(known, func(n psg.Node) bool {
			return n.Ready != slices.Contains(nodes, string(n.ID))
		})
	})
}
