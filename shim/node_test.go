package shim

import (
	"encoding/json"
	"os"
	"reflect"
	"testing"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

func recordedNode(t *testing.T) *api.Node {
	t.Helper()
	data, err := os.ReadFile("testdata/nomad/node.json")
	if err != nil {
		t.Fatal(err)
	}
	var node api.Node
	if err := json.Unmarshal(data, &node); err != nil {
		t.Fatal(err)
	}
	return &node
}

func TestNodeFromAPI_Recorded(t *testing.T) {
	node, err := NodeFromAPI(recordedNode(t), "eu")
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.MarshalIndent(node, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/nomad/node.golden", append(text, '\n'))
}

func TestNodeFromAPI_IsReadyOnlyWhenItMayRunSomething(t *testing.T) {
	for name, change := range map[string]func(*api.Node){
		"down":            func(n *api.Node) { n.Status = "down" },
		"ineligible":      func(n *api.Node) { n.SchedulingEligibility = "ineligible" },
		"draining":        func(n *api.Node) { n.DrainStrategy = &api.DrainStrategy{} },
		"drivers unwell":  func(n *api.Node) { n.Drivers = map[string]*api.DriverInfo{"exec": {}} },
		"drivers unknown": func(n *api.Node) { n.Drivers = nil },
		"well":            func(*api.Node) {},
	} {
		n := recordedNode(t)
		change(n)
		node, err := NodeFromAPI(n, "")
		if err != nil {
			t.Fatal(err)
		}
		if want := name == "well" || name == "drivers unknown"; node.Ready != want || node.Draining != (name == "draining") {
			t.Errorf("%s: ready %v, draining %v", name, node.Ready, node.Draining)
		}
	}
}

func TestNodeFromAPI_ReadsDevicesPortsAndLimits(t *testing.T) {
	n := &api.Node{ID: "n", NodeResources: new(api.NodeResources), ReservedResources: new(api.NodeReservedResources)}
	n.ReservedResources.Cpu.CpuShares = 50
	n.ReservedResources.Networks.ReservedHostPorts = "80, 22,8000-8002,8001"
	if err := json.Unmarshal([]byte(`[{"Vendor": "nvidia", "Type": "gpu", "Name": "A100", "Attributes": {
		"memory": {"Int": 40, "Unit": "GiB"}, "power": {"Float": 0.125, "Unit": "kW"}, "ecc": {"Bool": true}, "bus": {"String": "pcie"}},
		"Instances": [{"ID": "GPU-b", "Healthy": true}, {"ID": "GPU-a"}]}]`), &n.NodeResources.Devices); err != nil {
		t.Fatal(err)
	}
	got, err := NodeFromAPI(n, "")
	if err != nil {
		t.Fatal(err)
	}
	attributes := map[string]string{"memory": "40 GiB", "power": "0.125 kW", "ecc": "true", "bus": "pcie"}
	card := psg.Device{ID: "GPU-a", Vendor: "nvidia", Type: "gpu", Model: "A100", Attributes: attributes, MemoryMB: 40960, NUMA: -1}
	other := card
	other.ID, other.Healthy = "GPU-b", true
	if want := []psg.Device{card, other}; !reflect.DeepEqual(got.Devices, want) {
		t.Errorf("devices\n got %+v\nwant %+v", got.Devices, want)
	}
	if want := []int{22, 80, 8000, 8001, 8002}; !reflect.DeepEqual(got.StaticPorts, want) {
		t.Errorf("static ports %v, want %v", got.StaticPorts, want)
	}
	if got.Capacity[psg.CPU] != 0 || got.Capacity[psg.Network] != psg.MaxQuantity {
		t.Errorf("capacity %v: reserving more than there is leaves nothing, an unknown link has no limit", got.Capacity)
	}
	for _, bad := range []string{"x", "9-8", "70000", "1-"} {
		n.ReservedResources.Networks.ReservedHostPorts = bad
		if _, err := NodeFromAPI(n, ""); err == nil {
			t.Errorf("reserved ports %q were read", bad)
		}
	}
}

func TestMebibytes_ReadsEveryUnit(t *testing.T) {
	for unit, want := range map[string]int64{"": 2000, "MiB": 2000, "GiB": 2048000, "KiB": 1, "MB": 1907, "GB": 1907348, "B": 0, "furlong": 0} {
		if got := mebibytes(&api.Attribute{IntVal: new(int64(2000)), Unit: unit}); got != want {
			t.Errorf("2000 %s is %d MiB, want %d", unit, got, want)
		}
	}
	if got := mebibytes(&api.Attribute{FloatVal: new(1.5), Unit: "GiB"}); got != 1536 {
		t.Errorf("1.5 GiB is %d MiB", got)
	}
}
