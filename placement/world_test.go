package placement

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/psgrid/psg"
)

// world is a random small cluster, told to the engine and to the twin.
type world struct {
	rng *rand.Rand
	*cluster
	twin
	serial int
}

func newWorld(seed uint64) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 1)), cluster: newCluster(Config{})}
	w.twin.workloads = map[psg.WorkloadID]psg.Workload{}
	w.twin.denied = map[psg.WorkloadID]map[psg.NodeID]bool{}
	for range 2 + w.rng.IntN(5) {
		w.addNode()
	}
	for range 3 + w.rng.IntN(4) {
		w.addWorkload()
	}
	return w
}

func (w *world) pick(options ...string) string { return options[w.rng.IntN(len(options))] }

func (w *world) addNode() {
	w.serial++
	n := plainNode(fmt.Sprintf("n%02d", w.rng.IntN(100)*100+w.serial))
	n.Datacenter = w.pick("dc1", "dc2")
	n.Attributes = map[string]string{"zone": w.pick("a", "b")}
	if w.rng.IntN(4) > 0 {
		n.Attributes["rack"] = w.pick("r1", "r2", "r3")
	}
	n.Capacity = psg.Resources{psg.CPU: int64(1000 + 500*w.rng.IntN(4)), psg.Memory: int64(1000 * (1 + w.rng.IntN(3)))}
	for i := range w.rng.IntN(4) {
		n.Devices = append(n.Devices, psg.Device{
			ID: psg.DeviceID(fmt.Sprintf("%s-%d", n.ID, i)), Vendor: "nvidia", Type: "gpu",
			Model: w.pick("A100", "T4"), MemoryMB: 8000, NUMA: -1, Healthy: w.rng.IntN(8) > 0,
		})
	}
	w.setNode(n)
}

func (w *world) setNode(n psg.Node) {
	i := slices.IndexFunc(w.nodes, func(have psg.Node) bool { return have.ID == n.ID })
	if i >= 0 {
		w.nodes[i] = n
	} else {
		w.nodes = append(w.nodes, n)
	}
	w.Apply(psg.NodeChanged{Node: n})
}

func (w *world) addWorkload() {
	w.serial++
	d := plainWorkload(fmt.Sprintf("w%02d", w.serial), 1+w.rng.IntN(6))
	d.Priority = 1 + w.rng.IntN(3)
	d.Request = psg.Resources{psg.CPU: int64(100 * w.rng.IntN(6)), psg.Memory: int64(100 * w.rng.IntN(8))}
	d.Request[psg.MemoryMax] = d.Request[psg.Memory] * int64(1+w.rng.IntN(3))
	if w.rng.IntN(3) == 0 {
		d.Constraints = append(d.Constraints, psg.Constraint{
			Left: w.pick("${attr.zone}", "${attr.rack}"), Operator: psg.Operator(w.pick("=", "!=", "is_set")), Right: w.pick("a", "r1"),
		})
	}
	switch w.rng.IntN(6) {
	case 0:
		d.Constraints = append(d.Constraints, psg.Constraint{Operator: psg.DistinctHosts, Scope: psg.GroupScope})
	case 1:
		d.Constraints = append(d.Constraints, psg.Constraint{Operator: psg.DistinctProperty, Left: "${attr.rack}", Scope: psg.GroupScope})
	case 2:
		d.Spreads = []psg.Spread{{Attribute: "${attr.zone}", Weight: 100}}
	case 3:
		d.Datacenters = []string{w.pick("dc1", "dc2")}
	}
	if w.rng.IntN(5) == 0 {
		d.Ports = []psg.PortAsk{{Label: "http", Static: 8000 + w.rng.IntN(2)}}
	}
	for range w.rng.IntN(3) {
		d.Devices = append(d.Devices, psg.DeviceAsk{
			Name: w.pick("gpu", "nvidia/gpu", "nvidia/gpu/A100"), Count: 1 + w.rng.IntN(2),
			MilliGPU: []int64{1000, 250, 500, 1000}[w.rng.IntN(4)], MemoryMB: []int64{0, 0, 1000}[w.rng.IntN(3)],
		})
	}
	for i := range d.Devices {
		if d.Devices[i].MilliGPU == 1000 {
			d.Devices[i].MemoryMB = 0
		}
	}
	w.twin.workloads[d.ID] = d
	w.Apply(psg.WorkloadChanged{Workload: d})
}

// ids are the workloads in order.
func (w *world) ids() []psg.WorkloadID {
	var ids []psg.WorkloadID
	for id := range w.twin.workloads {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, psg.WorkloadID.Compare)
	return ids
}

// problem asks for a few instances under random rulings.
func (w *world) problem() Problem {
	w.cluster.rows = nil
	for _, n := range w.nodes {
		w.cluster.rows = append(w.cluster.rows, n.ID)
	}
	slices.Sort(w.cluster.rows)
	p := Problem{Now: at, Rows: w.cluster.rows, Rulings: map[psg.WorkloadID]*psg.Ruling{}}
	for _, id := range w.ids() {
		w.denied[id] = map[psg.NodeID]bool{}
		rows := psg.NewBitmap(len(p.Rows))
		for row, node := range p.Rows {
			if w.rng.IntN(6) == 0 {
				rows.Set(row)
				w.denied[id][node] = true
			}
		}
		p.Rulings[id] = &psg.Ruling{
			Workload: id,
			Denials:  []psg.Denial{{Reason: psg.Reason{Source: "policy p", Text: "no"}, Rows: rows}},
			Scorings: []psg.Scoring{{Points: int64(w.rng.IntN(500)), Rows: psg.Bitmap{w.rng.Uint64() & (1<<len(p.Rows) - 1)}}},
		}
		for range w.rng.IntN(4) {
			w.serial++
			p.Asks = append(p.Asks, psg.Ask{ID: psg.RequestID(fmt.Sprintf("a%04d", w.serial)), Workload: id, At: at.Add(-1 * 1e9 * 60)})
		}
	}
	return p
}

// agree checks a plan against the twin, ask by ask in queue order, and takes
// its placements over.
func (w *world) agree(t *testing.T, p Problem, plan psg.Plan) {
	t.Helper()
	asks := slices.Clone(p.Asks)
	slices.SortStableFunc(asks, func(a, b psg.Ask) int {
		if d := w.twin.workloads[b.Workload].Priority - w.twin.workloads[a.Workload].Priority; d != 0 {
			return d
		}
		return strings.Compare(string(a.ID), string(b.ID))
	})
	placed := map[psg.RequestID]psg.Placement{}
	for _, q := range plan.Placements {
		placed[q.Ask.ID] = q
	}
	for _, ask := range asks {
		d := w.twin.workloads[ask.Workload]
		q, ok := placed[ask.ID]
		if ok {
			if n := w.node(q.Node); !w.fits(d, n) {
				t.Fatalf("%s was put on %s, where it does not fit", ask.ID, n.ID)
			}
			w.placements = append(w.placements, q)
			continue
		}
		for _, n := range w.nodes {
			if w.fits(d, n) {
				t.Fatalf("%s (%+v) was refused, but fits on %s; %s", ask.ID, d, n.ID, summaries(plan))
			}
		}
	}
}

func TestSolve_AgreesWithTheTwin(t *testing.T) {
	for seed := range uint64(250) {
		w := newWorld(seed)
		for range 6 {
			if seed >= 150 {
				w.bind()
				w.part()
			}
			p := w.problem()
			plan := w.Solve(p)
			w.agree(t, p, plan)
			for _, q := range plan.Placements {
				w.Apply(psg.Placed{Placement: q})
			}
			w.shake()
		}
	}
}

// shake changes the world at random.
func (w *world) shake() {
	for range w.rng.IntN(6) {
		switch w.rng.IntN(6) {
		case 0:
			w.addNode()
		case 1:
			w.addWorkload()
		case 2:
			if len(w.nodes) > 2 {
				w.dropNode(w.rng.IntN(len(w.nodes)))
			}
		case 3:
			n := w.nodes[w.rng.IntN(len(w.nodes))]
			n.Version++
			n.Ready = !n.Ready
			n.Attributes = map[string]string{"zone": w.pick("a", "b"), "rack": w.pick("r1", "r2")}
			w.setNode(n)
		case 4:
			w.observe(&w.nodes[w.rng.IntN(len(w.nodes))])
		default:
			if len(w.placements) > 0 {
				i := w.rng.IntN(len(w.placements))
				w.Apply(psg.Freed{Ask: w.placements[i].Ask.ID, State: psg.Released, At: at})
				w.placements = slices.Delete(w.placements, i, i+1)
			}
		}
	}
}

// observe measures and projects what a node uses.
func (w *world) observe(n *psg.Node) {
	n.Telemetry = &psg.Telemetry{Metrics: map[string]psg.Stats{
		"cpu_percent": {P95: 100 * w.rng.Float64()}, "memory_used_mb": {P95: float64(w.rng.IntN(3000))},
	}}
	if n.Projection = nil; w.rng.IntN(2) == 0 {
		n.Projection = &psg.Projection{Upper: psg.Resources{psg.CPU: w.rng.Int64N(2500), psg.Memory: w.rng.Int64N(3000)}}
	}
	w.Apply(psg.NodeObserved{Node: n.ID, Telemetry: *n.Telemetry, Projection: n.Projection})
}

func (w *world) dropNode(i int) {
	id := w.nodes[i].ID
	w.nodes = slices.Delete(w.nodes, i, i+1)
	w.placements = slices.DeleteFunc(w.placements, func(p psg.Placement) bool { return p.Node == id })
	w.Apply(psg.NodeGone{Node: id})
}
