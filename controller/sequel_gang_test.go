package controller

import (
	"testing"

	"github.com/psgrid/psg"
)

// A gang that policy denies as a whole is no reason to deny others.
func TestCycle_AGangThatIsDeniedTakesNothing(t *testing.T) {
	gang, alone := workload("gang", "training", 64), workload("alone", "training", 64)
	gang.Count, gang.Gang, gang.Priority = 2, "g", 90
	w := newWorld(t, tempLog(t), jobs{gang.ID: gang, alone.ID: alone})
	w.ruledBy(onePerNode)
	w.report(psg.NodeChanged{Node: testNode("n1")})
	if err := w.submit(t.Context(), []psg.Ask{gate(gang, "g1", ""), gate(gang, "g2", ""), gate(alone, "z1", "")}); err != nil {
		t.Fatal(err)
	}
	w.cycle()
	w.cycle()
	if status, _ := w.Ask("z1"); status.State != psg.Granted {
		t.Errorf("%s: %+v; want it granted, since nothing is on the node", status.State, status.Refusal)
	}
	if status, _ := w.Ask("g1"); status.Placement != nil {
		t.Errorf("a part of the gang is placed: %+v", status)
	}
}
