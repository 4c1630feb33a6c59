package placement

import (
	"testing"

	"github.com/psgrid/psg"
)

// TestCeiling_IsNeverBelowAScore looks at every class and slot of random worlds,
// and of one with affinities and NUMA preferences for cards.
func TestCeiling_IsNeverBelowAScore(t *testing.T) {
	rated := 0
	look := func(e *Engine) {
		for _, s := range e.shapes {
			for _, c := range s.classes {
				for slot := range e.slots {
					score := e.scoreOf(c, int32(slot))
					if score == unfit {
						continue
					}
					rated++
					if most := e.ceiling(c, int32(slot)); score > most {
						t.Fatalf("score %d is above its ceiling %d on %+v", score, most, e.slots[slot].spec)
					}
				}
			}
		}
	}
	for seed := range uint64(300) {
		w := newWorld(seed)
		for range 4 {
			plan := w.Solve(w.problem())
			for _, q := range plan.Placements {
				w.Apply(psg.Placed{Placement: q})
			}
			look(w.Engine)
			w.shake()
		}
	}
	w := gpuWorkload("drawn", 20, psg.DeviceAsk{
		Name: "gpu", Count: 2, MilliGPU: 500,
		Affinities: []psg.Affinity{{Constraint: psg.Constraint{Left: "${device.model}", Operator: psg.Equal, Right: "A100"}, Weight: 50}},
	})
	w.NUMA = "prefer"
	n := gpuNode("n1", "A100", 4)
	for i := range n.Devices {
		n.Devices[i].NUMA = i / 2
	}
	c := newCluster(Config{}, n, gpuNode("n2", "T4", 4), w)
	for range 8 {
		c.commit(asksFor(w, 20)[len(c.held)])
		look(c.Engine)
	}
	if rated < 2000 {
		t.Errorf("%d scores: the test shows little", rated)
	}
}
