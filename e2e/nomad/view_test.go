package nomad_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

const (
	// seenWithin is how late the controller may see what Nomad shows, and slowMachine
	// by how much a machine may be slower than one on which that holds.
	seenWithin  = time.Second
	slowMachine = 10
	seenPoll    = 5 * time.Millisecond
)

// external is a change that somebody else makes in Nomad.
type external struct {
	name  string
	unit  string // of its figure
	do    func() error
	nomad func() bool // Nomad's own API shows it
	psg   func() bool // the controller's does, and its account is accordingly
}

// TestView_SeesExternalChangesSoonAfterNomad makes each change that the controller
// has to account for, behind its back.
func TestView_SeesExternalChangesSoonAfterNomad(t *testing.T) {
	t.Parallel() // it has a region of its own
	for name, late := range seenLate(t) {
		if late > slowMachine*seenWithin {
			t.Errorf("%s: seen %s after Nomad showed it, want within %s, or on a slow machine within %d times that", name, late, seenWithin, slowMachine)
		}
	}
}

// BenchmarkView prints how long after Nomad's API the controller's shows a change:
// a drain, a lost node, a stopped allocation, a scaled and a stopped job.
func BenchmarkView(b *testing.B) {
	nomadBinary(b)
	b.Run("one run", func(b *testing.B) {
		once(b, func(t *testing.T) {
			for unit, late := range seenLate(t) {
				b.ReportMetric(float64(late)/float64(time.Millisecond), "ms/"+unit)
			}
		})
	})
}

// seenLate makes the changes one after another on a Nomad of their own and returns
// how long after Nomad the controller showed each.
func seenLate(t *testing.T) map[string]time.Duration {
	t.Helper()
	g := openRegion(t, layout{nodes: three(), quick: true})
	g.register(gated("web", 3, classB()))
	g.settled("web", 3)
	late := map[string]time.Duration{}
	for _, change := range g.externals() {
		if err := change.do(); err != nil {
			t.Fatalf("%s: %v", change.name, err)
		}
		late[change.unit] = g.lateness(change)
		t.Logf("%s: seen %s after Nomad showed it", change.name, late[change.unit].Round(time.Millisecond))
	}
	g.agreed()
	return late
}

// lateness is how long after Nomad the controller shows a change, none if it does
// before; half of two polls is in it.
func (g *grid) lateness(change external) time.Duration {
	g.Helper()
	var shown [2]time.Time
	var asking sync.WaitGroup
	for i, there := range []func() bool{change.nomad, change.psg} {
		asking.Go(func() {
			poll := time.NewTicker(seenPoll)
			defer poll.Stop()
			for end := time.Now().Add(4 * time.Minute); time.Now().Before(end); <-poll.C {
				if there() {
					shown[i] = time.Now()
					return
				}
			}
		})
	}
	asking.Wait()
	for i, who := range []string{"Nomad", "the controller"} {
		if shown[i].IsZero() {
			g.Fatalf("%s: %s never showed it", change.name, who)
		}
	}
	return max(0, shown[1].Sub(shown[0]))
}

// externals are the changes, in an order in which each is possible: web runs three
// instances on the nodes of class b, and ends.
func (g *grid) externals() []external {
	var stopped string // the allocation
	lost := 2          // of class b
	return []external{
		{"a node is drained", "drain", func() error {
			_, err := g.client.Nodes().UpdateDrain(g.nodes[0], &api.DrainSpec{Deadline: time.Second}, false, nil)
			return err
		}, func() bool {
			n, _, err := g.client.Nodes().Info(g.nodes[0], nil)
			return err == nil && n.SchedulingEligibility == api.NodeSchedulingIneligible
		}, func() bool { return g.shownReady(0, false) }},

		{"an allocation is stopped", "alloc-stop", func() error {
			stopped = g.ids("web")[0]
			_, err := g.client.Allocations().Stop(&api.Allocation{ID: stopped}, nil)
			return err
		}, func() bool {
			a, _, err := g.client.Allocations().Info(stopped, nil)
			return err == nil && a.ClientStatus == api.AllocClientStatusComplete
		}, func() bool { return g.shownOver(stopped) }},

		{"a job is scaled", "scale", func() error {
			g.settled("web", 3)
			_, _, err := g.client.Jobs().Scale("web", "g", new(5), "", false, nil, nil)
			return err
		}, func() bool {
			job, _, err := g.client.Jobs().Info("web", nil)
			return err == nil && *job.TaskGroups[0].Count == 5
		}, func() bool { w := g.shownWorkload("web"); return w != nil && w.Count == 5 }},

		{"a node is down", "node-down", func() error {
			g.settled("web", 5)
			if g.runningOn("web")[psg.NodeID(g.nodes[lost])] == 0 {
				lost = 1
			}
			stopped = g.onNode(g.nodes[lost])[0]
			g.lose(lost)
			return nil
		}, func() bool {
			n, _, err := g.client.Nodes().Info(g.nodes[lost], nil)
			return err == nil && n.Status == api.NodeStatusDown
		}, func() bool { return g.shownReady(lost, false) && g.shownOver(stopped) }},

		{"a job is stopped", "job-stop", func() error {
			_, _, err := g.client.Jobs().Deregister("web", false, nil)
			return err
		}, func() bool {
			job, _, err := g.client.Jobs().Info("web", nil)
			return err == nil && *job.Stop
		}, func() bool { return g.shownWorkload("web") == nil }},

		{"what the job held is free", "freed", func() error { return nil }, func() bool {
			allocs, _, err := g.client.Jobs().Allocations("web", true, nil)
			return err == nil && !slices.ContainsFunc(allocs, live)
		}, func() bool {
			asks, err := g.rest.Asks(context.Background(), "default", "web")
			return err == nil && !slices.ContainsFunc(asks, func(s psg.AskStatus) bool { return !s.Over() })
		}},
	}
}

// onNode are the allocations of web that run on a node.
func (g *grid) onNode(node string) (ids []string) {
	for _, a := range g.allocs("web") {
		if a.NodeID == node && a.ClientStatus == api.AllocClientStatusRunning {
			ids = append(ids, a.ID)
		}
	}
	return ids
}

func (g *grid) shownReady(at int, want bool) bool {
	var n psg.Node
	g.get("/v1/node/"+g.nodes[at], &n)
	return n.ID != "" && n.Ready == want
}

func (g *grid) shownOver(alloc string) bool {
	s, err := g.rest.Ask(context.Background(), alloc)
	return err == nil && s.Over()
}

// shownWorkload is a job's workload as the controller has it, nil when it has none;
// one without an ID while it cannot be asked.
func (g *grid) shownWorkload(job string) *psg.Workload {
	workloads, err := g.rest.Workloads(context.Background())
	if err != nil {
		return new(psg.Workload)
	}
	for i := range workloads {
		if workloads[i].ID.Job == job {
			return &workloads[i]
		}
	}
	return nil
}
