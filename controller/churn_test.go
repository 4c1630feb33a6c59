package controller

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/placement"
)

// churn does whatever may happen to a world in which preemptions, moves and ends
// cross one another.
type churn struct {
	*world
	random *rand.Rand
	kinds  []psg.Workload
	nodes  []psg.Node
	allocs int
	errors strings.Builder // that were logged
}

func newChurn(t *testing.T, seed uint64) *churn {
	low, high, mid := lowly("low", 1024), urgent("high", 2048), workload("mid", "service", 512)
	mid.Priority = 50
	low.Count, high.Count, mid.Count = 9, 9, 9
	low.Devices = []psg.DeviceAsk{{Name: "gpu", Count: 1, MilliGPU: 400}}
	high.Devices = []psg.DeviceAsk{{Name: "gpu", Count: 2, MilliGPU: 1000}}
	low.Ports, mid.Ports = []psg.PortAsk{{Label: "http", Static: 80}}, []psg.PortAsk{{Label: "admin", Static: 81}}
	high.Ports = []psg.PortAsk{{Label: "admin", Static: 81}}
	mid.Preemptible = true
	mid.Spreads = []psg.Spread{{Attribute: "${node.unique.id}", Weight: 100, Scope: psg.GroupScope}}
	c := &churn{
		world:  newWorld(t, tempLog(t), jobs{low.ID: low, high.ID: high, mid.ID: mid}),
		random: rand.New(rand.NewPCG(seed, 1)), kinds: []psg.Workload{low, high, mid},
	}
	c.config.Log = slog.New(slog.NewTextHandler(&c.errors, &slog.HandlerOptions{Level: slog.LevelError}))
	for _, name := range []psg.NodeID{"n1", "n2", "n3"} {
		c.nodes = append(c.nodes, testNode(name))
		c.report(psg.NodeChanged{Node: testNode(name)})
	}
	c.cycle()
	return c
}

// one is any ask that is not over, or none.
func (c *churn) one() (psg.AskStatus, bool) {
	var live []psg.AskStatus
	for _, status := range c.Asks() {
		if !status.Over() {
			live = append(live, status)
		}
	}
	if len(live) == 0 {
		return psg.AskStatus{}, false
	}
	return live[c.random.IntN(len(live))], true
}

func (c *churn) step() {
	ask, any := c.one()
	switch n := c.random.IntN(20); {
	case n < 6:
		c.allocs++
		w, node := c.kinds[c.random.IntN(len(c.kinds))], c.nodes[c.random.IntN(len(c.nodes))].ID
		if err := c.submit(c.Context(), []psg.Ask{gate(w, fmt.Sprint("a", c.allocs), node)}); err != nil {
			c.Fatal(err)
		}
	case !any:
	case n < 9:
		c.report(psg.Moved{Ask: ask.Ask.ID, State: psg.Running, At: c.now})
	case n < 11:
		c.report(psg.Freed{Ask: ask.Ask.ID, State: psg.Released, At: c.now})
	case n < 15:
		want := &preempt{ask: ask.Ask.ID, answer: make(chan error, 1)}
		if err := c.inbox.preempt(want); err != nil {
			c.Fatal(err)
		}
	case n < 16:
		c.report(psg.Moved{Ask: ask.Ask.ID, State: psg.Moving, Reason: "moves", At: c.now})
	case n < 17:
		c.now = c.now.Add(preemptWithin / 2)
	case n < 18:
		node := &c.nodes[c.random.IntN(len(c.nodes))]
		node.Ready, node.Version = !node.Ready, node.Version+1
		c.report(psg.NodeChanged{Node: *node})
	case n < 19:
		running := psg.Placement{Ask: ask.Ask, Node: c.nodes[c.random.IntN(len(c.nodes))].ID, State: psg.Running, Since: c.now}
		running.Request = psg.Resources{psg.Memory: 300}
		c.report(psg.Placed{Placement: running})
	default:
		c.log.fail(fmt.Errorf("not now: %w", psg.ErrUnavailable), nil)
	}
}

// probe is what an engine says of one more of each kind, on each node and anywhere.
func (c *churn) probe(e *placement.Engine, view *psg.Snapshot) (said []any) {
	p := placement.Problem{Now: c.now, Rows: rows(view)}
	for i, w := range c.kinds {
		for _, node := range append([]psg.Node{{}}, c.nodes...) {
			p.Asks = []psg.Ask{{ID: psg.RequestID(fmt.Sprint("probe-", i)), Workload: w.ID, Node: node.ID, At: c.now, Hold: time.Second}}
			found, refused := e.Preempt(p, placement.Sacrifice{Ask: p.Asks[0], Node: node.ID})
			said = append(said, e.Solve(p), found, refused)
		}
	}
	return said
}

// TestChurn_TheEngineIsAsOneMadeOfTheLedger has everything happen to preemptions,
// and compares the engine with one that is told what the ledger has come to.
func TestChurn_TheEngineIsAsOneMadeOfTheLedger(t *testing.T) {
	claims := 0
	for seed := range uint64(2) {
		c := newChurn(t, seed)
		for i := range 150 {
			c.step()
			c.cycle()
			if strings.Contains(c.errors.String(), "disagree") {
				t.Fatalf("seed %d, step %d: %s", seed, i, &c.errors)
			}
			claims += len(c.Controller.state.Waiting())
			view := c.Snapshot()
			fresh := placement.New(placement.Config{})
			for _, d := range view.Deltas() {
				fresh.Apply(d)
			}
			if is, should := c.probe(c.engine, view), c.probe(fresh, view); !reflect.DeepEqual(is, should) {
				t.Fatalf("seed %d, step %d: asks %v\nthe engine says %+v\nafresh it says  %+v", seed, i, c.standing(), is, should)
			}
		}
		c.checkLog()
	}
	if claims < 10 {
		t.Errorf("only %d times somebody was to make way", claims)
	}
}
