package placement

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

// at is the virtual time of the tests.
var at = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// node1 is a plain node with 4000 MHz and 8192 MiB.
func plainNode(name string) psg.Node {
	return psg.Node{
		ID: psg.NodeID(name), Name: name, Datacenter: "dc1", Ready: true,
		Capacity: psg.Resources{psg.CPU: 4000, psg.Memory: 8192, psg.Disk: 100_000},
	}
}

// gpuNode has cards of one model, 80 GiB each, unlinked.
func gpuNode(name, model string, cards int) psg.Node {
	n := plainNode(name)
	n.Capacity = psg.Resources{psg.CPU: 100_000, psg.Memory: 1_000_000}
	for i := range cards {
		n.Devices = append(n.Devices, psg.Device{
			ID: psg.DeviceID(fmt.Sprintf("%s-gpu%d", name, i)), Vendor: "nvidia", Type: "gpu", Model: model,
			MemoryMB: 81920, NUMA: -1, Healthy: true,
		})
	}
	return n
}

// plainWorkload asks for 500 MHz and 256 MiB, count times.
func plainWorkload(name string, count int) psg.Workload {
	return psg.Workload{
		ID:   psg.WorkloadID{Namespace: "default", Job: name, Group: "main"},
		Type: psg.Service, Count: count, Priority: 50,
		Request: psg.Resources{psg.CPU: 500, psg.Memory: 256, psg.MemoryMax: 256},
	}
}

func gpuWorkload(name string, count int, asks ...psg.DeviceAsk) psg.Workload {
	w := plainWorkload(name, count)
	w.Devices = asks
	return w
}

// asksFor is one reservation ask per instance.
func asksFor(w psg.Workload, n int) []psg.Ask {
	asks := make([]psg.Ask, n)
	for i := range asks {
		asks[i] = psg.Ask{
			ID: psg.RequestID(fmt.Sprintf("%s-%03d", w.ID.Job, i)), Workload: w.ID, At: at.Add(time.Duration(i)),
		}
	}
	return asks
}

// cluster is an engine with what it was told.
type cluster struct {
	*Engine
	rows    []psg.NodeID
	rulings map[psg.WorkloadID]*psg.Ruling
}

func newCluster(cfg Config, things ...any) *cluster {
	c := &cluster{Engine: New(cfg), rulings: map[psg.WorkloadID]*psg.Ruling{}}
	for _, thing := range things {
		switch thing := thing.(type) {
		case psg.Node:
			c.rows = append(c.rows, thing.ID)
			c.Apply(psg.NodeChanged{Node: thing})
		case psg.Workload:
			c.Apply(psg.WorkloadChanged{Workload: thing})
		}
	}
	return c
}

func (c *cluster) solve(asks ...psg.Ask) psg.Plan {
	return c.Solve(Problem{Now: at, Asks: asks, Rows: c.rows, Rulings: c.rulings})
}

// commit solves and applies the plan.
func (c *cluster) commit(asks ...psg.Ask) psg.Plan {
	plan := c.solve(asks...)
	for _, id := range plan.Consumed {
		c.Apply(psg.Freed{Ask: id, State: psg.Released, At: at})
	}
	for _, p := range plan.Placements {
		c.Apply(psg.Placed{Placement: p})
	}
	return plan
}

// deny makes policy deny a workload the named nodes.
func (c *cluster) deny(w psg.Workload, reason string, nodes ...psg.NodeID) {
	rows := psg.NewBitmap(len(c.rows))
	for row, id := range c.rows {
		for _, denied := range nodes {
			if id == denied {
				rows.Set(row)
			}
		}
	}
	next := psg.Ruling{Workload: w.ID}
	if before := c.rulings[w.ID]; before != nil {
		next = *before
	}
	next.Denials = append(slices.Clone(next.Denials), psg.Denial{Reason: psg.Reason{Source: "policy test", Text: reason}, Rows: rows})
	c.rulings[w.ID] = &next
}

// perNode counts a plan's placements by node.
func perNode(p psg.Plan) map[psg.NodeID]int {
	counts := make(map[psg.NodeID]int)
	for _, placed := range p.Placements {
		counts[placed.Node]++
	}
	return counts
}

func wantPlaced(t *testing.T, p psg.Plan, n int) {
	t.Helper()
	if len(p.Placements) != n {
		t.Fatalf("placed %d, want %d; refusals: %s", len(p.Placements), n, summaries(p))
	}
}

func wantSummary(t *testing.T, p psg.Plan, i int, state psg.State, summary string) {
	t.Helper()
	if i >= len(p.Refusals) {
		t.Fatalf("%d refusals, want more than %d", len(p.Refusals), i)
	}
	if r := p.Refusals[i]; r.State != state || r.Summary != summary {
		t.Fatalf("refused with\n%s: %s, want\n%s: %s", r.State, r.Summary, state, summary)
	}
}

func summaries(p psg.Plan) string {
	text := ""
	for _, r := range p.Refusals {
		text += fmt.Sprintf("\n  %s %s: %s", r.Ask, r.State, r.Summary)
	}
	return text
}
