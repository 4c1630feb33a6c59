package policies

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/hclspec"
)

// fullCluster sets everything that documents are made from.
func fullCluster() (*psg.Workload, *psg.Snapshot) {
	w := &psg.Workload{
		ID: psg.WorkloadID{Namespace: "ml", Job: "a/b", Group: "g"}, Version: 3, Region: "global", Type: psg.Service, Count: 3,
		Priority: 70, Tenant: "search", Tier: "gold", Kind: "inference", Labels: map[string]string{"app": "x"},
		Meta: map[string]string{"m": "1"}, Preemptible: true, Gang: "gang", Request: psg.Resources{500, 0, 256},
		Devices: []psg.DeviceAsk{{Name: "nvidia/gpu/A100", Count: 2, MilliGPU: 250}, {Name: "gpu", Count: 1, MemoryMB: 2048}, {Name: "fpga", Count: 1, MilliGPU: 1000}},
		Tasks:   []psg.Task{{Driver: "raw_exec"}, {Driver: "exec"}, {Driver: "exec"}}, Datacenters: []string{"dc*"}, NodePool: "gpu",
	}
	node := psg.Node{
		ID: "n1", Version: 1, Name: "node-1", Region: "global", Datacenter: "dc1", Pool: "gpu", Class: "big",
		Attributes: map[string]string{"kernel.name": "linux"}, Meta: map[string]string{"rack": "r1"}, Ready: true,
		Capacity: psg.Resources{4000, 4, 8192},
		Devices: []psg.Device{
			{ID: "g0", Vendor: "nvidia", Type: "gpu", Model: "A100", MemoryMB: 40960, Healthy: true},
			{ID: "g1", Vendor: "nvidia", Type: "gpu", Model: "A100", Healthy: true, Foreign: true},
			{ID: "g2", Vendor: "nvidia", Type: "gpu", Model: "A100"},
			{ID: "f0", Vendor: "x", Type: "fpga", Healthy: true},
		},
		Telemetry: &psg.Telemetry{At: time.Unix(2, 0), Metrics: map[string]psg.Stats{"cpu_percent": {
			Last: 1, Mean: 2, Max: 3, P50: 4, P95: 5, P99: 6, Over60s: &psg.Summary{Mean: 7, Max: 8}, Over5m: &psg.Summary{P99: 9},
		}}},
		Projection: &psg.Projection{Mean: psg.Resources{100}, Upper: psg.Resources{200}},
	}
	held := psg.Placement{
		Ask: psg.Ask{ID: "r1", Workload: w.ID, Alloc: "alloc-1"}, Node: "n1", State: psg.Running, Request: w.Request,
		Devices: []psg.DeviceShare{{Device: "g0", MilliGPU: 250}, {Device: "f0", Ask: 2, MilliGPU: 1000}},
	}
	unknown := psg.Placement{Ask: psg.Ask{ID: "r2", Workload: psg.WorkloadID{Namespace: "x", Job: "y", Group: "z"}, Hold: time.Minute}, Node: "n1", State: psg.Reserved}
	over := psg.Placement{Ask: psg.Ask{ID: "r3", Workload: w.ID}, Node: "n1", State: psg.Released, Request: w.Request}
	s := &psg.Snapshot{At: time.Unix(10, 5), Nodes: []psg.Node{node}, Workloads: []psg.Workload{*w}, Placements: psg.PlacementsOf(held, unknown, over)}
	s.Sort()
	return w, s
}

func inputOf(w *psg.Workload, s *psg.Snapshot, row int) *ast.Term {
	aggregates := []hclspec.Aggregate{{Name: "gold", Match: hclspec.Match{Text: map[hclspec.MatchField]string{hclspec.MatchTier: "gold"}}}}
	return ast.ObjectTerm(field("workload", workloadDocument(w)), field("now", integer(s.At.UnixNano())),
		field("node", nodeDocument(&s.Nodes[row], holdingOf(s).residents[row], aggregates)))
}

func TestInput_SaysWhatTheSnapshotHolds(t *testing.T) {
	w, s := fullCluster()
	input := inputOf(w, s, 0).Value
	for path, want := range map[string]string{
		"now":                           `10000000005`,
		"workload.id":                   `"ml/a%2Fb/g"`,
		"workload.service":              `"ml/a%2Fb"`,
		"workload.job":                  `"a/b"`,
		"workload.gpus":                 `3`,
		"workload.milli_gpu":            `500`,
		"workload.request.memory_mb":    `256`,
		"workload.drivers":              `["exec", "raw_exec"]`,
		"node.domain":                   `"dc1"`,
		"node.capacity.milli_gpu":       `2000`,
		"node.free.milli_gpu":           `750`,
		"node.free.cpu_mhz":             `3500`,
		"node.devices.0.milli_gpu_free": `750`,
		"node.devices.1.milli_gpu_free": `0`,
		"node.workloads.0.alloc":        `"alloc-1"`,
		"node.workloads.0.milli_gpu":    `250`,
		"node.workloads.0.gpus":         `1`,
		"node.workloads.0.tier":         `"gold"`,
		"node.workloads.1.reservation":  `true`,
		"node.workloads.1.tenant":       `""`,
		"node.workloads.1.service":      `"x/y"`,
		"node.agg.gold":                 `1`,
		"node.telemetry.cpu_percent":    `{"last": 1, "max": 3, "max_5m": 0, "max_60s": 8, "mean": 2, "mean_5m": 0, "mean_60s": 7, "p50": 4, "p50_5m": 0, "p50_60s": 0, "p95": 5, "p95_5m": 0, "p95_60s": 0, "p99": 6, "p99_5m": 9, "p99_60s": 0}`,
		"node.observed_at":              `2000000000`,
		"node.projection.cpu_mhz":       `{"mean": 100, "upper": 200}`,
	} {
		value, err := input.Find(refOf(path))
		if err != nil || value.String() != want {
			t.Errorf("%s is %v (%v), want %s", path, value, err, want)
		}
	}
	if workloads, err := input.Find(refOf("node.workloads")); err != nil || workloads.(*ast.Array).Len() != 2 {
		t.Errorf("what is released counts: %v", workloads)
	}
}

func refOf(path string) ast.Ref {
	var ref ast.Ref
	for _, part := range strings.Split(path, ".") {
		if part[0] >= '0' && part[0] <= '9' {
			ref = append(ref, ast.NumberTerm(json.Number(part)))
		} else {
			ref = append(ref, ast.StringTerm(part))
		}
	}
	return ref
}

func TestCluster_AddsUp(t *testing.T) {
	w, s := fullCluster()
	second := s.Nodes[0]
	second.ID, second.Datacenter, second.Domain, second.Devices = "n2", "dc1", "rack-7", nil
	s.Nodes = append(s.Nodes, second)
	s.Placements = withMore(s.Placements, psg.Placement{Ask: psg.Ask{ID: "r4", Workload: w.ID}, Node: "n2", State: psg.Granted, Request: w.Request})
	document := clusterDocument(s, holdingOf(s).residents).Value
	for path, want := range map[string]string{
		"nodes": `2`, "placed": `3`, "capacity.cpu_mhz": `8000`, "used.cpu_mhz": `1000`, "capacity.milli_gpu": `2000`, "used.milli_gpu": `1250`,
		"tenants":              `{"search": {"placed": 2, "used": {"cores": 0, "cpu_mhz": 1000, "disk_mb": 0, "iops": 0, "memory_max_mb": 0, "memory_mb": 512, "milli_gpu": 1250, "network_mbits": 0}}}`,
		"services.ml/a%2Fb":    `{"domains": {"dc1": 1, "rack-7": 1}, "placed": 2, "planned": 3}`,
		"services.x/y":         `{"domains": {"dc1": 1}, "placed": 1, "planned": 1}`,
		"domains.rack-7.nodes": `1`,
		"domains.rack-7.used":  `{"cores": 0, "cpu_mhz": 500, "disk_mb": 0, "iops": 0, "memory_max_mb": 0, "memory_mb": 256, "milli_gpu": 0, "network_mbits": 0}`,
		"domains.dc1.placed":   `2`,
	} {
		value, err := document.Find(refOf(path))
		if err != nil || value.String() != want {
			t.Errorf("%s is %v (%v), want %s", path, value, err, want)
		}
	}
}

// conform checks a document against a schema both ways: nothing is there that
// the schema does not know, and everything it knows is there.
func conform(t *testing.T, at string, schema map[string]any, value any) {
	t.Helper()
	kinds := map[string]reflect.Kind{"object": reflect.Map, "array": reflect.Slice, "string": reflect.String, "number": reflect.Float64, "boolean": reflect.Bool}
	if got := reflect.ValueOf(value).Kind(); got != kinds[schema["type"].(string)] {
		t.Errorf("%s is a %s, the schema says %s", at, got, schema["type"])
		return
	}
	if items, ok := schema["items"].(map[string]any); ok {
		if len(value.([]any)) == 0 {
			t.Errorf("%s is empty, which tests nothing", at)
		}
		for _, item := range value.([]any) {
			conform(t, at+"[]", items, item)
		}
	}
	object, isObject := value.(map[string]any)
	properties, closed := schema["properties"].(map[string]any)
	for name, item := range object {
		if property, ok := properties[name].(map[string]any); ok {
			conform(t, at+"."+name, property, item)
		} else if closed {
			t.Errorf("the schema does not know %s.%s", at, name)
		} else {
			conform(t, at+".*", schema["additionalProperties"].(map[string]any), item)
		}
	}
	for name := range properties {
		if _, ok := object[name]; !ok {
			t.Errorf("%s has no %s", at, name)
		}
	}
	if isObject && !closed && len(object) == 0 && !strings.HasSuffix(at, "labels") {
		t.Errorf("%s is empty, which tests nothing", at)
	}
}

func TestSchemas_AreWhatPoliciesRead(t *testing.T) {
	w, s := fullCluster()
	for name, c := range map[string]struct {
		schema   []byte
		document *ast.Term
	}{"input": {InputSchema(), inputOf(w, s, 0)}, "cluster": {ClusterSchema(), clusterDocument(s, holdingOf(s).residents)}} {
		var document any
		if err := json.Unmarshal([]byte(c.document.String()), &document); err != nil {
			t.Fatal(err)
		}
		conform(t, name, decodeSchema(c.schema), document)
	}
}

func TestStatistics_LeaveOutWhatIsNotANumber(t *testing.T) {
	got := statisticsDocument(psg.Stats{Last: math.Inf(1), Mean: math.NaN(), Max: 1.5})
	if got.String() != `{"max": 1.5, "p50": 0, "p95": 0, "p99": 0}` {
		t.Errorf("got %s", got)
	}
	if !slices.IsSorted(statistics()) {
		t.Error("statistics are not sorted")
	}
}
