package nomad_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
	e2e "github.com/psgrid/psg/e2e/cluster"
)

// TestFailures takes one part after the other away from three servers, three
// clients, a NATS server and a controller. A crash of the plugin, and gates
// without a controller, are tested in e2e/gate; an expired token in TestSecure;
// killed leaders and NATS servers under load in e2e/chaos.
func TestFailures(t *testing.T) {
	t.Parallel() // it has a region of its own
	g := openRegion(t, layout{servers: 3, nodes: three(), bus: true, quick: true})
	g.register(gated("web", 2, classB()))
	g.settled("web", 2)
	for _, one := range []struct {
		name string
		do   func(*grid)
	}{
		{"bus down: reads are answered, nothing is decided, then all is", (*grid).busDown},
		{"nomad's leader killed: another is followed", (*grid).leaderKilled},
		{"a client restarts: what runs runs on, what waits waits on", (*grid).clientRestarts},
		{"a node is lost in mid-move: nothing is hinted to it", (*grid).lostInMove},
		{"a node is lost while no controller runs: Nomad restarts the work", (*grid).lostAlone},
	} {
		t.Run(one.name, func(t *testing.T) {
			sub := g.region.on(t)
			one.do(sub)
			sub.agreed()
		})
		if t.Failed() {
			break // what follows expects what was before
		}
	}
}

// agreed waits until the controller's account of what runs is Nomad's.
func (g *grid) agreed() {
	g.Helper()
	var ours, theirs []string
	if err := e2e.Until(context.Background(), 30*time.Second, "the controller's account is Nomad's", func() (bool, error) {
		ours, theirs = nil, nil
		asks, err := g.rest.Asks(context.Background(), "", "")
		if err != nil {
			return false, err
		}
		for _, s := range asks {
			if s.Ask.Alloc != "" && s.State == psg.Running {
				ours = append(ours, fmt.Sprint(s.Ask.Alloc, " on ", s.Placement.Node))
			}
		}
		allocs, _, err := g.client.Allocations().List(nil)
		if err != nil {
			return false, err
		}
		for _, a := range allocs {
			if gate := a.TaskStates["gate"]; gate != nil && gate.State == "dead" && a.ClientStatus == api.AllocClientStatusRunning {
				theirs = append(theirs, fmt.Sprint(a.ID, " on ", a.NodeID))
			}
		}
		slices.Sort(ours)
		slices.Sort(theirs)
		return slices.Equal(ours, theirs), fmt.Errorf("PSG has %v, Nomad has %v", ours, theirs)
	}); err != nil {
		g.Fatal(err)
	}
}

func (g *grid) busDown() {
	if err := g.bus.Stop(syscall.SIGKILL, 5*time.Second); err != nil {
		g.Fatal(err)
	}
	g.register(gated("meanwhile", 1, classB()))
	g.until(20*time.Second, "its gate has asked", func() bool {
		allocs := g.allocs("meanwhile")
		return len(allocs) == 1 && allocs[0].TaskStates["gate"] != nil && allocs[0].TaskStates["gate"].State == "running"
	})
	if nodes, err := g.rest.Nodes(context.Background()); err != nil || len(nodes) != 3 {
		g.Errorf("without its bus the controller tells of %d nodes: %v", len(nodes), err)
	}
	if asks, err := g.rest.Asks(context.Background(), "default", "web"); err != nil || len(asks) == 0 {
		g.Errorf("without its bus the controller tells of %d asks: %v", len(asks), err)
	}
	if on := g.runningOn("meanwhile"); len(on) > 0 {
		g.Error("granted without a ledger")
	}
	if err := g.startBus(); err != nil {
		g.Fatal(err)
	}
	start := time.Now()
	g.until(60*time.Second, "what asked meanwhile runs", func() bool { return g.total(g.runningOn("meanwhile")) == 1 })
	g.Logf("granted %s after the bus was back", time.Since(start).Round(time.Millisecond))
	g.purge("meanwhile")
}

func (g *grid) leaderKilled() {
	leader, err := g.client.Status().Leader()
	if err != nil {
		g.Fatal(err)
	}
	at := slices.IndexFunc(g.servers, func(a *e2e.Agent) bool { return a.RPC == leader })
	if at < 0 {
		g.Fatalf("no server at %s", leader)
	}
	if err := g.servers[at].Kill(); err != nil {
		g.Fatal(err)
	}
	start := time.Now()
	var id string
	g.until(60*time.Second, "another server leads and takes a job", func() bool {
		answer, _, err := g.client.Jobs().Register(gated("later", 1, classB()), nil)
		if err == nil {
			id = answer.EvalID
		}
		return err == nil
	})
	taken := time.Since(start)
	g.until(60*time.Second, "the job runs", func() bool { return g.total(g.runningOn("later")) == 1 })
	g.Logf("another server took evaluation %.8s after %s; the job ran %s later", id, taken.Round(time.Millisecond), (time.Since(start) - taken).Round(time.Millisecond))
	if err := g.servers[at].Start(); err != nil {
		g.Fatal(err)
	}
	g.purge("later")
}

func (g *grid) clientRestarts() {
	job := gated("queued", 1, classB())
	job.TaskGroups[0].Tasks[1].Resources = &api.Resources{CPU: new(10), MemoryMB: new(16)}
	job.TaskGroups[0].Tasks[1].Config["gpu"] = []map[string]any{{"count": 3}} // nodes have two cards
	g.register(Pinned(job, g.nodes[1]))
	g.until(20*time.Second, "a gate waits", func() bool { return g.asks("queued", psg.Queued) == 1 })
	before := append(g.ids("web"), g.ids("queued")...)
	if err := g.clients[1].End(); err != nil {
		g.Fatal(err)
	}
	if err := g.clients[1].Start(); err != nil {
		g.Fatal(err)
	}
	g.until(60*time.Second, "the client is back", func() bool {
		node, _, err := g.client.Nodes().Info(g.nodes[1], nil)
		return err == nil && node.Status == api.NodeStatusReady && node.Drivers["psg"] != nil && node.Drivers["psg"].Healthy
	})
	g.steady("web", time.Second)
	if after := append(g.ids("web"), g.ids("queued")...); !slices.Equal(before, after) {
		g.Errorf("allocations %v became %v", before, after)
	}
	for _, a := range append(g.allocs("web"), g.allocs("queued")...) {
		for name, state := range a.TaskStates {
			if state.Restarts > 0 || state.Failed {
				g.Errorf("task %s of %s: %d restarts, failed %t", name, a.Name, state.Restarts, state.Failed)
			}
		}
	}
	if n := g.asks("queued", psg.Queued); n != 1 {
		g.Errorf("%d gates wait, want the one from before", n)
	}
	g.purge("queued")
}

// lose takes a node away for good: its agent and all it ran.
func (g *grid) lose(at int) {
	g.Helper()
	a := g.clients[at]
	err := a.Kill()
	for _, process := range e2e.Leftovers(a.Dir) {
		var pid int
		if _, scan := fmt.Sscan(process, &pid); scan == nil {
			err = errors.Join(err, syscall.Kill(pid, syscall.SIGKILL))
		}
	}
	if err != nil {
		g.Logf("what ran on the lost node: %v", err) // it ended meanwhile
	}
}

// found brings a lost node back.
func (g *grid) found(at int) {
	g.Helper()
	if err := g.clients[at].Start(); err != nil {
		g.Fatal(err)
	}
	g.until(60*time.Second, "the node is back", func() bool {
		var one psg.Node
		g.get("/v1/node/"+g.nodes[at], &one)
		return one.Ready && slices.Contains(one.Drivers, "psg")
	})
}

func (g *grid) lostInMove() {
	// Both instances on one node of class b, so that the other is their destination.
	from := g.nodes[2]
	if err := e2e.Until(context.Background(), 60*time.Second, "web is on one node", func() (bool, error) {
		if on := g.runningOn("web"); on[psg.NodeID(g.nodes[1])] == 2 {
			return true, nil
		}
		out, err := g.psg("node", "rebalance", "-empty", "-wait", "20s", from)
		return false, fmt.Errorf("%w: %s", err, out)
	}); err != nil {
		g.Fatal(err)
	}
	g.settled("web", 2)
	if err := e2e.Until(context.Background(), 20*time.Second, "web begins to move to the node that is to be lost", func() (bool, error) {
		out, err := g.psg("node", "rebalance", "-empty", g.nodes[1])
		return err == nil && strings.Contains(out, g.nodes[2]), fmt.Errorf("%w: %s", err, out) // a busy machine may cost the controller its lease
	}); err != nil {
		g.Fatal(err)
	}
	g.lose(2)
	g.until(30*time.Second, "Nomad knows that the node is down", func() bool {
		node, _, err := g.client.Nodes().Info(g.nodes[2], nil)
		return err == nil && node.Status == api.NodeStatusDown
	})
	start := time.Now()
	g.until(60*time.Second, "all of web runs where it can", func() bool { return g.runningOn("web")[psg.NodeID(g.nodes[1])] == 2 })
	g.Logf("all ran %s after the loss was known, in version %d", time.Since(start).Round(time.Millisecond), *g.job("web").Version)
	g.until(90*time.Second, "nothing of web is hinted to the lost node", func() bool { return !g.hinted("web", g.nodes[2]) })
	g.Logf("nothing was hinted there %s after the loss was known, in version %d", time.Since(start).Round(time.Millisecond), *g.job("web").Version)
	g.found(2)
}

// hinted reports whether a job names a node.
func (g *grid) hinted(id, node string) bool {
	for _, group := range g.job(id).TaskGroups {
		for _, affinity := range group.Affinities {
			if strings.Contains(affinity.RTarget, node) {
				return true
			}
		}
		for _, spread := range group.Spreads {
			for _, target := range spread.SpreadTarget {
				if target.Value == node && target.Percent > 0 {
					return true
				}
			}
		}
	}
	return false
}

func (g *grid) lostAlone() {
	g.settled("web", 2)
	lost := 1
	if g.runningOn("web")[psg.NodeID(g.nodes[1])] == 0 {
		lost = 2
	}
	if err := g.controller.Stop(syscall.SIGKILL, 5*time.Second); err != nil {
		g.Fatal(err)
	}
	g.lose(lost)
	start := time.Now()
	g.until(60*time.Second, "Nomad runs all of web elsewhere", func() bool {
		on := g.runningOn("web")
		return g.total(on) == 2 && on[psg.NodeID(g.nodes[lost])] == 0
	})
	g.Logf("all ran %s after the node was lost, on %v", time.Since(start).Round(time.Millisecond), g.short(g.runningOn("web")))
	if err := g.controller.Start(context.Background()); err != nil {
		g.Fatal(err)
	}
	g.agreed()
	for _, a := range g.allocs("web") {
		s, err := g.rest.Ask(context.Background(), a.ID)
		if err != nil || s.State != psg.Running {
			g.Errorf("of %s, which started without it, the controller knows %s (%v)", a.ID, s.State, err)
		}
	}
	g.found(lost)
}
