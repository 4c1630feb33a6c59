package nomad_test

import (
	"context"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

// TestView_SeesWithinASecond changes things behind PSG's back and takes the time
// until the controller accounts for it.
func TestView_SeesWithinASecond(t *testing.T) {
	g := use(t)
	g.register(gated("web", 3, map[string]any{"kind": "service"}))
	g.settled("web", 3)
	alloc := g.allocs("web")[0]
	ready := func(want bool) func() bool {
		return func() bool {
			var n psg.Node
			g.get("/v1/node/"+g.nodes[0], &n)
			return n.ID != "" && n.Ready == want
		}
	}
	for _, change := range []struct {
		name  string
		do    func() error
		there func() bool // in Nomad
		seen  func() bool // in the controller
	}{
		{"a node is drained", func() error {
			_, err := g.client.Nodes().UpdateDrain(g.nodes[0], &api.DrainSpec{Deadline: time.Second, IgnoreSystemJobs: true}, false, nil)
			return err
		}, nil, ready(false)},
		{"the node is back", func() error {
			_, err := g.client.Nodes().UpdateDrain(g.nodes[0], nil, true, nil)
			return err
		}, nil, ready(true)},
		{"an allocation is stopped", func() error {
			_, err := g.client.Allocations().Stop(&api.Allocation{ID: alloc.ID}, nil)
			return err
		}, func() bool {
			a, _, err := g.client.Allocations().Info(alloc.ID, nil)
			return err == nil && a.ClientStatus == api.AllocClientStatusComplete
		}, func() bool {
			s, err := g.rest.Ask(context.Background(), alloc.ID)
			return err == nil && s.Over()
		}},
		{"the job is scaled", func() error {
			g.settled("web", 3)
			_, _, err := g.client.Jobs().Scale("web", "g", new(5), "", false, nil, nil)
			return err
		}, nil, func() bool {
			workloads, err := g.rest.Workloads(context.Background())
			for _, w := range workloads {
				if err == nil && w.ID.Job == "web" {
					return w.Count == 5
				}
			}
			return false
		}},
		{"the job is stopped", func() error {
			_, _, err := g.client.Jobs().Deregister("web", false, nil)
			return err
		}, nil, func() bool {
			workloads, err := g.rest.Workloads(context.Background())
			for _, w := range workloads {
				if w.ID.Job == "web" {
					return false
				}
			}
			return err == nil
		}},
		{"what it held is free", func() error { return nil }, func() bool {
			allocs, _, err := g.client.Jobs().Allocations("web", true, nil)
			for _, a := range allocs {
				if live(a) {
					return false
				}
			}
			return err == nil
		}, func() bool {
			asks, err := g.rest.Asks(context.Background(), "default", "web")
			for _, s := range asks {
				if !s.Over() {
					return false
				}
			}
			return err == nil
		}},
	} {
		if err := change.do(); err != nil {
			t.Fatalf("%s: %v", change.name, err)
		}
		if change.there != nil {
			g.until(30*time.Second, change.name+", says Nomad", change.there)
		}
		start := time.Now()
		g.until(30*time.Second, change.name+", says the controller", change.seen)
		took := time.Since(start)
		t.Logf("%s: seen after %s", change.name, took.Round(time.Millisecond))
		if took > time.Second {
			t.Errorf("%s: seen after %s, want it within a second", change.name, took)
		}
	}
}
