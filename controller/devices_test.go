package controller

import (
	"testing"

	"github.com/psgrid/psg"
)

// TestInventory_CardsThatAnAgentFindsAreHandedOut: on a node whose orchestrator
// lists one card and has handed it out, the agent's cards are placed on, the
// orchestrator's never; a change by the orchestrator and the next leader know them
// still, and an unwell card is left alone.
func TestInventory_CardsThatAnAgentFindsAreHandedOut(t *testing.T) {
	dir := t.TempDir()
	train, theirs := workload("train", "batch", 64), workload("theirs", "service", 64)
	train.Devices = []psg.DeviceAsk{{Name: "nvidia/gpu", Count: 1, MilliGPU: 1000}}
	theirs.Devices = []psg.DeviceAsk{{Name: "nvidia/gpu/listed", Count: 1, MilliGPU: 1000}}
	known := jobs{train.ID: train, theirs.ID: theirs}
	card := func(id psg.DeviceID, healthy bool) psg.Device {
		return psg.Device{ID: id, Vendor: "nvidia", Type: "gpu", Model: "A100", MemoryMB: 40_960, Link: "nvlink-0", Healthy: healthy}
	}
	node := testNode("n1")
	node.Devices = []psg.Device{{ID: "GPU-b", Vendor: "nvidia", Type: "gpu", Model: "listed", MemoryMB: 40_960, NUMA: -1, Healthy: true}}
	seen := psg.NodeObserved{Node: "n1", Inventory: &psg.Inventory{Devices: []psg.Device{card("GPU-a", true), card("GPU-b", true), card("GPU-c", false)}}}

	log, stop := openLog(t, dir)
	w := newWorld(t, log, known)
	held := psg.Placement{
		Ask: gate(theirs, "nomads", "n1"), Node: "n1", State: psg.Running, Request: theirs.Request, Since: start,
		Devices: []psg.DeviceShare{{Device: "GPU-b", MilliGPU: 1000, MemoryMB: 40_960}},
	}
	w.Observe(seen) // before the node is known
	w.cycle()
	w.report(psg.NodeChanged{Node: node}, psg.WorkloadChanged{Workload: theirs}, psg.Placed{Placement: held})
	w.cycle()
	w.Observe(seen)
	w.cycle()
	first := w.place(0, gate(train, "a1", "n1"))[0]
	if first.Kind != psg.Grant || len(first.Devices) != 1 || first.Devices[0].Device != "GPU-a" {
		t.Fatalf("order = %+v, want a grant of the card that the agent found", first)
	}
	waiting := w.place(0, gate(train, "a2", "n1"))[0]
	if waiting.Kind != psg.Wait {
		t.Errorf("order = %+v: the orchestrator's card, or the unwell one, was handed out", waiting)
	}

	sequence, _, _ := w.Position()
	node.Version++
	node.Meta = map[string]string{"rack": "r1"}
	w.report(psg.NodeChanged{Node: node})
	w.Observe(seen)
	w.cycle()
	if after, _, _ := w.Position(); after != sequence+1 {
		t.Errorf("%d records for one change of the node", after-sequence)
	}
	stop()
	log, _ = openLog(t, dir)
	next := newWorld(t, log, known)
	devices := next.nodeOf("n1").Devices
	if len(devices) != 3 || devices[0].Link != "nvlink-0" || devices[0].Reported || devices[1].ID != "GPU-a" || !devices[1].Reported {
		t.Errorf("the next leader knows %+v", devices)
	}
	healed := seen
	healed.Inventory = &psg.Inventory{Devices: []psg.Device{card("GPU-a", true), card("GPU-b", true), card("GPU-c", true)}}
	next.Observe(healed)
	if granted := next.place(waiting.Sequence, gate(train, "a2", "n1"))[0]; granted.Kind != psg.Grant || granted.Devices[0].Device != "GPU-c" {
		t.Errorf("order = %+v, want the card that is well again", granted)
	}

	// The node leaves and is back, while its agent has nothing new to say.
	next.report(psg.NodeGone{Node: "n1"}, psg.NodeChanged{Node: node})
	next.Observe(healed)
	next.cycle()
	next.Observe(healed)
	next.cycle()
	if devices := next.nodeOf("n1").Devices; len(devices) != 3 {
		t.Errorf("after it was gone it has %+v", devices)
	}
}

// nodeOf is a node as it is known.
func (w *world) nodeOf(id psg.NodeID) psg.Node {
	w.Helper()
	for _, n := range w.Snapshot().Nodes {
		if n.ID == id {
			return n
		}
	}
	w.Fatalf("node %s is not known", id)
	return psg.Node{}
}
