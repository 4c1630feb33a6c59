package placement

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/psgrid/psg"
)

func TestTerm_ComparesAsNomad(t *testing.T) {
	n := plainNode("n1")
	n.Class, n.Pool, n.Region = "big", "gpu", "eu"
	n.Attributes = map[string]string{"v": "1.7.0-beta1", "n": "10", "list": "a, b,c", "empty": "", "e": "1e3"}
	n.Meta = map[string]string{"rack": "r1"}
	for _, tc := range []struct {
		left  string
		op    psg.Operator
		right string
		want  bool
	}{
		{"${node.unique.id}", "=", "n1", true},
		{"${node.unique.name}", "is", "n1", true},
		{"${node.datacenter}", "==", "dc1", true},
		{"${node.class}", "!=", "small", true},
		{"${node.pool}", "not", "gpu", false},
		{"${node.region}", "=", "eu", true},
		{"literal", "=", "literal", true},
		{"${attr.missing}", "=", "", false},
		{"${attr.missing}", "!=", "x", true},
		{"${attr.missing}", "!=", "", false},
		{"${attr.missing}", "<", "5", false},
		{"${node.nonsense}", "is_set", "", false},
		{"${attr.empty}", "is_set", "", true},
		{"${attr.missing}", "is_not_set", "", true},
		{"${attr.n}", ">", "9", true},
		{"${attr.e}", ">", "999.5", true},
		{"${attr.n}", ">=", "10", true},
		{"${attr.n}", "<=", "9.5", false},
		{"abc", "<", "abd", true},
		{"10", "<", "9x", true},
		{"NaN", ">=", "1", false},
		{"${attr.v}", "version", ">= 1.6, < 2", false}, // a prerelease only meets a constraint that names one
		{"${attr.v}", "semver", ">= 1.6, < 2", true},
		{"${attr.v}", "semver", "> 1.7.0", false},
		{"1.7", "semver", "1.7.0", true},
		{"1.7", "version", "~> 1.5", true},
		{"1.7", "semver", "~> 1.5", false},
		{"x", "version", ">= 0", false},
		{"1.7", "version", "${attr.v}", false},
		{"${meta.rack}", "regexp", "^r[0-9]$", true},
		{"r1", "regexp", "${meta.rack}", true},
		{"${attr.list}", "set_contains", "c,a", true},
		{"${attr.list}", "set_contains_all", "a,d", false},
		{"${attr.list}", "set_contains_any", "d,b", true},
		{"${attr.list}", "nonsense", "a", false},
	} {
		c := compile(psg.Constraint{Left: tc.left, Operator: tc.op, Right: tc.right})
		if got := c.holds(&n); got != tc.want {
			t.Errorf("%s %s %s is %t", tc.left, tc.op, tc.right, got)
		}
	}
}

func TestCardTerm_ComparesAsNomad(t *testing.T) {
	d := psg.Device{ID: "gpu-1", Vendor: "nvidia", Type: "gpu", Model: "2080", Attributes: map[string]string{
		"memory": "11019 MiB", "clock": "1.6 GHz", "power": "250W", "driver": "535.1", "ecc": "true", "bw": "1 GB/s", "name": "Turing",
	}}
	for _, tc := range []struct {
		left  string
		op    psg.Operator
		right string
		want  bool
	}{
		{"${device.attr.memory}", ">=", "10 GiB", true},
		{"${device.attr.memory}", ">", "11.5 GB", true},
		{"${device.attr.memory}", ">", "10", false}, // no unit does not compare with one
		{"${device.attr.memory}", "!=", "10", false},
		{"${device.attr.memory}", ">", "1 GHz", false},
		{"${device.attr.clock}", ">", "1500MHz", true},
		{"${device.attr.clock}", "=", "1600MHz", false}, // 1.6 is no binary fraction: just above
		{"${device.attr.power}", "<", "0.3 kW", true},
		{"${device.attr.power}", "=", "250000 mW", true},
		{"${device.attr.bw}", ">", "900 MB/s", true},
		{"${device.attr.bw}", ">", "900 MB", false},
		{"${device.attr.ecc}", "=", "1", false},
		{"${device.attr.ecc}", "is", "TRUE", true},
		{"${device.attr.missing}", "!=", "x", true},
		{"${device.attr.missing}", "!=", "${device.attr.absent}", false},
		{"${device.attr.missing}", "is_not_set", "", true},
		{"${device.attr.name}", "is_set", "", true},
		{"${device.attr.name}", "regexp", "^Tur", true},
		{"${device.attr.driver}", "regexp", "535", false}, // a number is no text
		{"${device.attr.name}", "set_contains_any", "Turing,Ampere", true},
		{"${device.model}", "regexp", "^20", true},
		{"${device.model}", "set_contains_any", "A100,2080", true}, // a model is text, whatever it looks like
		{"${device.vendor}", "=", "nvidia", true},
		{"${device.ids}", "set_contains", "gpu-1", true},
		{"gpu-0,gpu-1", "set_contains", "${device.ids}", true},
		{"gpu-0,gpu-2", "set_contains_any", "${device.ids}", false},
		{"${device.ids}", "=", "gpu-2", false},
	} {
		c := compileCard(psg.Constraint{Left: tc.left, Operator: tc.op, Right: tc.right})
		if got := c.holds(&d); got != tc.want {
			t.Errorf("%s %s %s is %t", tc.left, tc.op, tc.right, got)
		}
	}
}

func TestFilter_WhatANodeMustHave(t *testing.T) {
	good := plainNode("good")
	good.Datacenter, good.Pool, good.Region = "eu-west-1", "gpu", "eu"
	good.Drivers = []string{"docker", "exec"}
	good.HostVolumes = []psg.HostVolume{{Name: "data"}, {Name: "shard[0]"}, {Name: "ro", ReadOnly: true}}
	good.HostNetworks = []string{"public"}
	for name, tc := range map[string]struct {
		ask  func(*psg.Workload)
		node func(*psg.Node)
		want string // the objection; empty means it fits
	}{
		"datacenter glob":      {ask: func(w *psg.Workload) { w.Datacenters = []string{"us-*", "eu-*-1"} }},
		"other datacenter":     {ask: func(w *psg.Workload) { w.Datacenters = []string{"us-*", "eu-*-2"} }, want: "datacenter is not us-* or eu-*-2"},
		"pool":                 {ask: func(w *psg.Workload) { w.NodePool = "gpu" }},
		"any pool":             {ask: func(w *psg.Workload) { w.NodePool = "all" }},
		"other pool":           {ask: func(w *psg.Workload) { w.NodePool = "default" }, want: "node pool is not default"},
		"other region":         {ask: func(w *psg.Workload) { w.Region = "us" }, want: "region is not us"},
		"driver":               {ask: func(w *psg.Workload) { w.Tasks = []psg.Task{{Driver: "docker"}} }},
		"missing driver":       {ask: func(w *psg.Workload) { w.Tasks = []psg.Task{{Driver: "java"}} }, want: "driver java is missing"},
		"drivers unknown":      {ask: func(w *psg.Workload) { w.Tasks = []psg.Task{{Driver: "java"}} }, node: func(n *psg.Node) { n.Drivers = nil }},
		"volume":               {ask: func(w *psg.Workload) { w.Volumes = []psg.VolumeAsk{{Type: "host", Source: "data"}} }},
		"volume per alloc":     {ask: func(w *psg.Workload) { w.Volumes = []psg.VolumeAsk{{Type: "host", Source: "shard", PerAlloc: true}} }},
		"missing volume":       {ask: func(w *psg.Workload) { w.Volumes = []psg.VolumeAsk{{Type: "host", Source: "shard"}} }, want: "host volume shard is missing"},
		"read-only volume":     {ask: func(w *psg.Workload) { w.Volumes = []psg.VolumeAsk{{Type: "host", Source: "ro"}} }, want: "host volume ro is read-only"},
		"read-only is enough":  {ask: func(w *psg.Workload) { w.Volumes = []psg.VolumeAsk{{Type: "host", Source: "ro", ReadOnly: true}} }},
		"csi":                  {ask: func(w *psg.Workload) { w.Volumes = []psg.VolumeAsk{{Type: "csi", Name: "v"}} }, want: "no CSI plugin for v"},
		"host network":         {ask: func(w *psg.Workload) { w.Ports = []psg.PortAsk{{Label: "p", HostNetwork: "public"}} }},
		"missing host network": {ask: func(w *psg.Workload) { w.Ports = []psg.PortAsk{{Label: "p", HostNetwork: "private"}} }, want: `host network "private" is missing`},
		"draining":             {node: func(n *psg.Node) { n.Ready, n.Draining = false, true }, want: "draining"},
		"not ready":            {node: func(n *psg.Node) { n.Ready = false }, want: "not ready"},
		"cores":                {ask: func(w *psg.Workload) { w.Request[psg.Cores] = 2 }, node: func(n *psg.Node) { n.Capacity[psg.Cores] = 4 }},
		"cores take MHz":       {ask: func(w *psg.Workload) { w.Request[psg.Cores] = 2 }, node: func(n *psg.Node) { n.Capacity[psg.Cores] = 2 }, want: "cpu_mhz short by 500"},
		"no cores":             {ask: func(w *psg.Workload) { w.Request[psg.Cores] = 1 }, want: "cores short by 1"},
		"kept port":            {ask: func(w *psg.Workload) { w.Ports = []psg.PortAsk{{Label: "p", Static: 22}} }, node: func(n *psg.Node) { n.StaticPorts = []int{22} }, want: "port 22 is taken on good: the host keeps it"},
		"port twice":           {ask: func(w *psg.Workload) { w.Ports = []psg.PortAsk{{Label: "p", Static: 80}, {Label: "q", Static: 80}} }, want: "port 80 is asked for twice by the workload itself"},
		"port on two networks": {ask: func(w *psg.Workload) {
			w.Ports = []psg.PortAsk{{Label: "p", Static: 80}, {Label: "q", Static: 80, HostNetwork: "public"}}
		}},
		"dynamic ports": {ask: func(w *psg.Workload) { w.Ports = []psg.PortAsk{{Label: "p"}, {Label: "q"}} }, node: func(n *psg.Node) { n.DynamicPorts = psg.PortRange{Min: 5, Max: 5} }, want: "port dynamic ports short by 1"},
	} {
		t.Run(name, func(t *testing.T) {
			w, n := plainWorkload("web", 1), good
			if tc.ask != nil {
				tc.ask(&w)
			}
			if tc.node != nil {
				tc.node(&n)
			}
			plan := newCluster(Config{}, w, n).solve(asksFor(w, 1)...)
			if tc.want == "" {
				wantPlaced(t, plan, 1)
				return
			}
			wantPlaced(t, plan, 0)
			if !strings.Contains(plan.Refusals[0].Summary, ": "+tc.want) {
				t.Errorf("%s, want %s", plan.Refusals[0].Summary, tc.want)
			}
		})
	}
}

func TestSolve_DistinctHostsOfAJobCountsAllGroups(t *testing.T) {
	for scope, want := range map[psg.Scope]int{psg.JobScope: 2, psg.GroupScope: 4} {
		a, b := plainWorkload("job", 2), plainWorkload("job", 2)
		b.ID.Group = "other"
		a.Constraints = []psg.Constraint{{Operator: psg.DistinctHosts, Scope: scope}}
		b.Constraints = a.Constraints
		asks := asksFor(a, 2)
		for i, ask := range asksFor(b, 2) {
			ask.ID = psg.RequestID(fmt.Sprintf("other-%d", i))
			asks = append(asks, ask)
		}
		wantPlaced(t, newCluster(Config{}, a, b, plainNode("n1"), plainNode("n2")).solve(asks...), want)
	}
	off := plainWorkload("job", 2)
	off.Constraints = []psg.Constraint{{Operator: psg.DistinctHosts, Right: "false"}}
	wantPlaced(t, newCluster(Config{}, off, plainNode("n1")).solve(asksFor(off, 2)...), 2)
}

func TestSolve_DistinctPropertyWithACount(t *testing.T) {
	w := plainWorkload("web", 6)
	w.Constraints = []psg.Constraint{{Operator: psg.DistinctProperty, Left: "${meta.rack}", Right: "2"}}
	var things []any
	for i := range 4 {
		n := plainNode(fmt.Sprintf("n%d", i))
		n.Meta = map[string]string{"rack": fmt.Sprint(i / 2)}
		things = append(things, n)
	}
	plan := newCluster(Config{}, append(things, w, plainNode("unracked"))...).solve(asksFor(w, 6)...)
	wantPlaced(t, plan, 4)
	wantSummary(t, plan, 0, psg.Queued, `no node has room: constraint ${meta.rack} distinct_property 2: "0" is used by 2 already on n0 (nearest of 5)`)
}

func TestSolve_ReachesTheMinimumOfFailureDomains(t *testing.T) {
	w := plainWorkload("web", 4)
	w.MinDomains = 3
	near := plainNode("n1") // would win every tie
	near.Domain = "d1"
	far, farther := plainNode("n2"), plainNode("n3")
	far.Domain, farther.Domain = "d2", "d3"
	plan := newCluster(Config{}, w, near, far, farther).solve(asksFor(w, 4)...)
	wantPlaced(t, plan, 4)
	if got := perNode(plan); got["n1"] != 2 || got["n2"] != 1 || got["n3"] != 1 {
		t.Errorf("%v", got)
	}
	plan = newCluster(Config{}, w, near, far).solve(asksFor(w, 4)...)
	wantPlaced(t, plan, 3) // the last one must be in a third domain
}

func TestSolve_PolicyPointsLeadUnlessDenied(t *testing.T) {
	w := plainWorkload("web", 1)
	c := newCluster(Config{}, w, plainNode("n1"), plainNode("n2"), plainNode("n3"))
	c.deny(w, "no", "n3")
	next := *c.rulings[w.ID]
	next.Scorings = []psg.Scoring{{Points: 500, Rows: psg.Bitmap{0b110}}, {Points: 9000, Rows: psg.Bitmap{0b100}}}
	c.rulings[w.ID] = &next
	plan := c.solve(asksFor(w, 1)...)
	wantPlaced(t, plan, 1)
	if p := plan.Placements[0]; p.Node != "n2" || !slices.Contains(p.Score, psg.ScorePart{Name: "policy", Points: 500}) {
		t.Errorf("on %s with %v", p.Node, p.Score)
	}
	next.Rejected = []psg.Reason{{Source: "policy p", Text: "never"}}
	wantSummary(t, c.solve(asksFor(w, 1)...), 0, psg.Denied, "policy p: never")
}

func TestSolve_NodeNewerThanTheRulingIsDenied(t *testing.T) {
	w := plainWorkload("web", 1)
	c := newCluster(Config{}, w)
	c.rulings[w.ID] = &psg.Ruling{Workload: w.ID}
	c.Apply(psg.NodeChanged{Node: plainNode("n1")})
	wantSummary(t, c.solve(asksFor(w, 1)...), 0, psg.Denied, "policy denies every node: policy: the node is newer than the ruling")
}

func TestEngine_RulingWithTheSameWordsKeepsItsCandidates(t *testing.T) {
	w := plainWorkload("web", 9)
	c := newCluster(Config{}, w, plainNode("n1"), plainNode("n2"))
	c.deny(w, "no", "n1")
	c.solve(asksFor(w, 3)...)
	class := c.workloads[w.ID].class
	delete(c.rulings, w.ID)
	c.deny(w, "said otherwise", "n1")
	c.solve(asksFor(w, 3)...)
	if c.workloads[w.ID].class != class {
		t.Error("the class was made anew")
	}
	c.deny(w, "nor there", "n2")
	wantPlaced(t, c.solve(asksFor(w, 1)...), 0)
}

func TestSolve_AvoidsNodesBusierThanTheirRequestsExplain(t *testing.T) {
	w := plainWorkload("web", 1)
	c := newCluster(Config{}, w, plainNode("n1"), plainNode("n2"))
	c.Apply(psg.NodeObserved{Node: "n1", Telemetry: psg.Telemetry{Metrics: map[string]psg.Stats{"cpu_percent": {P95: 85}}}})
	if got := c.solve(asksFor(w, 1)...).Placements[0].Node; got != "n2" {
		t.Errorf("on %s", got)
	}
}

func TestConfig_Validate(t *testing.T) {
	for want, cfg := range map[string]Config{
		"placement weight packing: -1 is outside 0..1000000":                         {Weights: Weights{Packing: -1}},
		"placement index_mb: -1 is below 0":                                          {IndexMB: -1},
		`placement limit 0, "": it has no name`:                                      {Limits: []psg.Limit{{}}},
		`placement limit 0, "x": it matches every workload: it names no label`:       {Limits: []psg.Limit{{Name: "x"}}},
		`placement limit 0, "x": it bounds nothing: per_node 0, total 0`:             {Limits: []psg.Limit{{Name: "x", Match: map[string]string{"a": "b"}}}},
		`placement limit 0, "x": it is soft but has no per_node, which alone can be`: {Limits: []psg.Limit{{Name: "x", Match: map[string]string{"a": "b"}, Total: 1, Soft: true}}},
	} {
		if err := cfg.Validate(); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := (Config{}).Validate(); err != nil {
		t.Error(err)
	}
}
