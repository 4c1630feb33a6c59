package nomad_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/shim"
)

func TestMove(t *testing.T) {
	g := use(t)
	g.Run("a node is emptied, one instance at a time", g.emptied)
	g.Run("a drained node is left in spite of the hint", g.drained)
	g.Run("detach gives everything back without a restart", g.detached)
}

func (g *grid) emptied(t *testing.T) {
	g.register(gated("web", 3, classB()))
	g.settled("web", 3)
	from := g.nodes[1]
	if g.runningOn("web")[psg.NodeID(from)] == 0 {
		from = g.nodes[2]
	}
	moves := g.runningOn("web")[psg.NodeID(from)]
	version := *g.job("web").Version
	if _, err := g.client.Nodes().ToggleEligibility(from, false, nil); err != nil {
		t.Fatal(err)
	}
	fewest, stop := make(chan int, 1), make(chan struct{})
	go func() {
		least := 3
		for tick := time.Tick(20 * time.Millisecond); ; {
			select {
			case <-stop:
				fewest <- least
				return
			case <-tick:
				if allocs := g.allocs("web"); len(allocs) > 0 {
					least = min(least, g.total(g.runningOn("web")))
				}
			}
		}
	}()
	start := time.Now()
	out, err := g.psg("node", "rebalance", "-empty", "-wait", "40s", from)
	took := time.Since(start)
	close(stop)
	least := <-fewest
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	g.settled("web", 3)
	t.Logf("%d moves in %s, %d job versions, never fewer than %d running:\n%s", moves, took.Round(time.Millisecond), *g.job("web").Version-version, least, out)
	if on := g.runningOn("web"); on[psg.NodeID(from)] > 0 || on[psg.NodeID(g.nodes[0])] > 0 {
		t.Errorf("web runs on %v", g.short(on))
	}
	if least < 2 {
		t.Errorf("only %d instances ran, want never fewer than 2 of 3", least)
	}
	if _, err := g.client.Nodes().ToggleEligibility(from, true, nil); err != nil {
		t.Fatal(err)
	}
}

func (g *grid) drained(t *testing.T) {
	g.until(10*time.Second, "the node is back", func() bool {
		var nodes []psg.Node
		g.get("/v1/nodes", &nodes)
		return !slices.ContainsFunc(nodes, func(n psg.Node) bool { return !n.Ready })
	})
	if !shim.Steered(g.job("web")) {
		t.Fatal("web is not steered any more")
	}
	var on string
	for node := range g.runningOn("web") {
		on = string(node)
	}
	if _, err := g.client.Nodes().UpdateDrain(on, &api.DrainSpec{Deadline: 5 * time.Second}, true, nil); err != nil {
		t.Fatal(err)
	}
	g.until(40*time.Second, "Nomad starts the work elsewhere in spite of the hint", func() bool {
		now := g.runningOn("web")
		return g.total(now) == 3 && now[psg.NodeID(on)] == 0
	})
	g.purge("web")
	if _, err := g.client.Nodes().UpdateDrain(on, nil, true, nil); err != nil {
		t.Fatal(err)
	}
}

func (g *grid) detached(t *testing.T) {
	held := gated("waits", 1, classB())
	held.TaskGroups[0].Tasks[0].Resources.CPU = new(9000) // more than any node has
	held.Constraints = append(held.Constraints, api.NewConstraint("${meta.psg_hold}", "=", "never"))
	g.register(held)
	web := gated("web", 3, classB())
	g.register(shim.Steer(web, map[string]psg.Hint{"g": {psg.NodeID(g.nodes[1]): 2, psg.NodeID(g.nodes[2]): 1}}))
	g.settled("web", 3)
	before := g.ids("web")
	out, err := g.psg("shim", "detach")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(out, "web") || !strings.Contains(out, "waits") {
		t.Errorf("detach says:\n%s", out)
	}
	for _, id := range []string{"web", "waits"} {
		if job := g.job(id); shim.Steered(job) || len(job.Constraints) > 0 {
			t.Errorf("%s still has something of PSG's: %v", id, job.Constraints)
		}
	}
	g.steady("web", 2*time.Second)
	if after := g.ids("web"); !slices.Equal(after, before) {
		t.Errorf("allocations %v became %v", before, after)
	}
	if g.total(g.runningOn("web")) != 3 {
		t.Error("not everything runs any more")
	}
}
