package psg

import (
	"slices"
	"testing"
)

// TestNode_JoinsWhatItsAgentFinds: the orchestrator's word goes first, and what
// the agent found outlives what the orchestrator tells next.
func TestNode_JoinsWhatItsAgentFinds(t *testing.T) {
	listed := Device{ID: "GPU-b", Model: "by Nomad", NUMA: -1, Healthy: true}
	found := []Device{
		{ID: "GPU-a", Model: "A100", NUMA: 0, Link: "nvlink-0", Healthy: true},
		{ID: "GPU-b", Model: "by NVML", NUMA: 1, Link: "nvlink-0"},
	}
	node, changed := Node{Devices: []Device{listed}}.WithInventory(found)
	want := []Device{
		{ID: "GPU-b", Model: "by Nomad", NUMA: 1, Link: "nvlink-0", Healthy: true},
		{ID: "GPU-a", Model: "A100", NUMA: 0, Link: "nvlink-0", Healthy: true, Reported: true},
	}
	if !changed || !slices.EqualFunc(node.Devices, want, Device.Equal) {
		t.Fatalf("changed %t: %+v", changed, node.Devices)
	}
	if again, changed := node.WithInventory(found); changed {
		t.Errorf("the same inventory changes it to %+v", again.Devices)
	}
	next := Node{Version: 2, Devices: []Device{listed}}.Keeping(&node)
	if !slices.EqualFunc(next.Devices, want, Device.Equal) {
		t.Errorf("the orchestrator's next word leaves %+v", next.Devices)
	}
	next = Node{Version: 3, Devices: []Device{{ID: "GPU-a", Model: "by Nomad"}}}.Keeping(&node)
	if len(next.Devices) != 1 || next.Devices[0].Model != "by Nomad" || next.Devices[0].Reported {
		t.Errorf("listed and no longer listed: %+v", next.Devices)
	}
	if left, changed := node.WithInventory(nil); !changed || len(left.Devices) != 1 || left.Devices[0].ID != "GPU-b" {
		t.Errorf("after all are gone: %+v", left.Devices)
	}
	if listed.NUMA != -1 || node.Devices[0].NUMA != 1 {
		t.Error("a node that was told is changed in place")
	}
}
