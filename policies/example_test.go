package policies_test

import (
	"context"
	"fmt"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/policies"
)

func ExampleSet_Rule() {
	set, err := policies.Load("library/gpu_colocation")
	if err != nil {
		fmt.Println(err)
		return
	}
	training := psg.WorkloadID{Namespace: "ml", Job: "train", Group: "main"}
	chat := psg.WorkloadID{Namespace: "ml", Job: "chat", Group: "main"}
	view := &psg.Snapshot{
		Nodes:     []psg.Node{{ID: "n1", Name: "node-1"}, {ID: "n2", Name: "node-2"}},
		Workloads: []psg.Workload{{ID: chat, Kind: "inference"}},
	}
	var held []psg.Placement
	for i := range 3 {
		ask := psg.Ask{ID: psg.RequestID(fmt.Sprint(i)), Workload: chat}
		held = append(held, psg.Placement{Ask: ask, Node: "n1", State: psg.Running})
	}
	view.Placements = psg.PlacementsOf(held...)
	w := &psg.Workload{ID: training, Kind: "training", Devices: []psg.DeviceAsk{{Name: "gpu", Count: 1, MilliGPU: 1000}}}
	ruling, err := set.Rule(context.Background(), w, view)
	if err != nil {
		fmt.Println(err)
		return
	}
	for row, node := range view.Nodes {
		fmt.Println(node.Name, ruling.Why(row))
	}
	// Output:
	// node-1 [{policy gpu_colocation node node-1 runs 3 inference workloads: from 3 on, only preemptible training may join}]
	// node-2 []
}
