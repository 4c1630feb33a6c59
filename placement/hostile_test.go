package placement

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

// Bad input is refused with its reason; it neither panics nor stalls.
func TestSolve_RefusesSenselessWorkloads(t *testing.T) {
	many := make([]psg.Constraint, 10_000)
	for i := range many {
		many[i] = psg.Constraint{Left: "${attr.x}", Operator: psg.NotEqual, Right: fmt.Sprint(i)}
	}
	for name, tc := range map[string]struct {
		change func(*psg.Workload)
		state  psg.State
		want   string
	}{
		"negative": {func(w *psg.Workload) { w.Request[psg.Memory] = -1 }, psg.Denied,
			"workload: request: memory_mb -1 is outside 0..1099511627776"},
		"overflowing": {func(w *psg.Workload) { w.Request[psg.CPU] = math.MaxInt64 }, psg.Denied,
			"workload: request: cpu_mhz 9223372036854775807 is outside 0..1099511627776"},
		"larger than any node": {func(w *psg.Workload) { w.Request[psg.CPU] = psg.MaxQuantity }, psg.Queued,
			"no node has room: cpu_mhz short by 1099511623776 on n1"},
		"ceiling above the node": {func(w *psg.Workload) { w.Request[psg.MemoryMax] = 9000 }, psg.Queued,
			"no node has room: memory_max_mb short by 808 on n1"},
		"10,000 constraints": {func(w *psg.Workload) { w.Constraints = many }, psg.Denied,
			"workload: 10000 constraints, affinities and spreads; at most 256 are considered"},
		"contradiction": {func(w *psg.Workload) {
			w.Constraints = []psg.Constraint{
				{Left: "${attr.x}", Operator: psg.Equal, Right: "1"}, {Left: "${attr.x}", Operator: psg.NotEqual, Right: "1"},
			}
		}, psg.Queued, `no node qualifies: constraint ${attr.x} != 1: here it is "1" on n1`},
		"bad pattern": {func(w *psg.Workload) {
			w.Constraints = []psg.Constraint{{Left: "${attr.x}", Operator: psg.Regexp, Right: "(("}}
		}, psg.Queued, "no node qualifies: constraint ${attr.x} regexp ((: not a regular expression on n1"},
		"bad version": {func(w *psg.Workload) {
			w.Constraints = []psg.Constraint{{Left: "${attr.x}", Operator: psg.Semver, Right: "~> 1"}}
		}, psg.Queued, "no node qualifies: constraint ${attr.x} semver ~> 1: not a version constraint on n1"},
		"unknown operator": {func(w *psg.Workload) {
			w.Constraints = []psg.Constraint{{Left: "${attr.x}", Operator: "~", Right: "1"}}
		}, psg.Queued, "no node qualifies: constraint ${attr.x} ~ 1: unknown operator on n1"},
		"device share": {func(w *psg.Workload) { w.Devices = []psg.DeviceAsk{{Name: "gpu", Count: 1, MilliGPU: 1500}} }, psg.Denied,
			"workload: device ask 0 (gpu): milli_gpu 1500 is outside 0..1000"},
		"device count": {func(w *psg.Workload) { w.Devices = []psg.DeviceAsk{{Name: "gpu", Count: -1, MilliGPU: 1000}} }, psg.Denied,
			"workload: device ask 0 (gpu): count -1 is outside 0..64"},
		"port": {func(w *psg.Workload) { w.Ports = []psg.PortAsk{{Label: "p", Static: 70000}} }, psg.Denied,
			"workload: port p: 70000 is outside 0..65535"},
		"domains": {func(w *psg.Workload) { w.MinDomains = 3 }, psg.Denied, "workload: min_domains 3 exceeds the count 1"},
		"distinct_property count": {func(w *psg.Workload) {
			w.Constraints = []psg.Constraint{{Left: "${attr.x}", Operator: psg.DistinctProperty, Right: "many"}}
		}, psg.Queued, "no node qualifies: constraint ${attr.x} distinct_property many: the count is not a number on n1"},
	} {
		t.Run(name, func(t *testing.T) {
			w, n := plainWorkload("web", 1), plainNode("n1")
			n.Attributes = map[string]string{"x": "1"}
			tc.change(&w)
			plan := newCluster(Config{}, w, n).solve(asksFor(w, 1)...)
			wantPlaced(t, plan, 0)
			wantSummary(t, plan, 0, tc.state, tc.want)
		})
	}
}

func TestSolve_AvoidsNodesWithSenselessFigures(t *testing.T) {
	w := plainWorkload("web", 1)
	negative, huge, zero, ports := plainNode("n1"), plainNode("n2"), plainNode("n3"), plainNode("n4")
	negative.Capacity[psg.Memory] = -5
	huge.Capacity[psg.CPU] = math.MaxInt64
	zero.Capacity = psg.Resources{}
	ports.DynamicPorts = psg.PortRange{Min: 9, Max: 3}
	c := newCluster(Config{}, w, negative, huge, zero, ports)
	plan := c.solve(asksFor(w, 1)...)
	wantPlaced(t, plan, 0)
	text := summaries(plan) + fmt.Sprint(plan.Refusals[0].Excluded)
	for _, want := range []string{"cpu_mhz short by 500", "its figures are invalid} 3"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %s", want, text)
		}
	}
}

func TestSolve_UnknownThings(t *testing.T) {
	w := plainWorkload("web", 1)
	wantSummary(t, newCluster(Config{}).solve(asksFor(w, 1)...), 0, psg.Queued, "workload: not known yet")
	wantSummary(t, newCluster(Config{}, w).solve(asksFor(w, 1)...), 0, psg.Queued, "there are no nodes")
}

func TestApply_PlacementBeforeItsNodeAndWorkload(t *testing.T) {
	w, n := plainWorkload("web", 9), plainNode("n1")
	w.Ports = []psg.PortAsk{{Label: "http"}}
	c := newCluster(Config{}, w, n)
	plan := c.solve(asksFor(w, 2)...)
	wantPlaced(t, plan, 2)
	late := newCluster(Config{})
	for _, p := range plan.Placements {
		late.Apply(psg.Placed{Placement: p})
	}
	late.Apply(psg.NodeChanged{Node: n})
	late.Apply(psg.WorkloadChanged{Workload: w})
	late.rows = c.rows
	for _, p := range plan.Placements {
		c.Apply(psg.Placed{Placement: p})
	}
	ask := psg.Ask{ID: "next", Workload: w.ID, At: at}
	if got, want := mustJSON(t, late.solve(ask)), mustJSON(t, c.solve(ask)); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if got, want := late.nodes["n1"].ports.dynamic, c.nodes["n1"].ports.dynamic; got != want || got == 12001 {
		t.Errorf("%d dynamic ports, want %d", got, want)
	}
}

func FuzzConstraint(f *testing.F) {
	f.Add("${attr.x}", "version", ">= 1.2, < 2", "1.3")
	f.Add("${device.attr.memory}", ">=", "40 GiB", "80 GiB")
	f.Add("${meta.x}", "regexp", "(a+)+$", "aaaa")
	f.Add("x", "set_contains_any", "a, b", "")
	f.Fuzz(func(t *testing.T, left, op, right, value string) {
		c := psg.Constraint{Left: left, Operator: psg.Operator(op), Right: right}
		n := plainNode("n1")
		n.Attributes = map[string]string{"x": value}
		d := psg.Device{Type: "gpu", Attributes: map[string]string{"memory": value}}
		term, card := compile(c), compileCard(c)
		if !term.holds(&n) && term.saw(&n) == "" {
			t.Errorf("%+v does not hold on %q, and does not say why", c, value)
		}
		card.holds(&d)
	})
}

func TestSolve_TangledDeviceAsksEndInBoundedTime(t *testing.T) {
	n := gpuNode("n1", "A100", maxCards)
	for i := range n.Devices {
		n.Devices[i].Link = fmt.Sprint(i / 2)
		n.Devices[i].MemoryMB = int64(40_000 + i) // no two alike
	}
	w := gpuWorkload("tangle", 1)
	for i := range maxDeviceAsks {
		w.Devices = append(w.Devices, psg.DeviceAsk{Name: "gpu", Count: 7, MilliGPU: 600, Constraints: []psg.Constraint{
			{Left: "${device.model}", Operator: psg.NotEqual, Right: fmt.Sprint(i)},
		}})
	}
	c := newCluster(Config{}, n, w)
	start := time.Now()
	wantPlaced(t, c.solve(asksFor(w, 1)...), 0)
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("took %s", took)
	}
}
