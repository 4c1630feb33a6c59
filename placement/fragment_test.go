package placement

import (
	"fmt"
	"testing"

	"github.com/psgrid/psg"
)

// demandFor registers a workload that only shapes the mix.
func demandFor(name string, count int, milli int64, cards int, cpu int64) psg.Workload {
	w := gpuWorkload(name, count, psg.DeviceAsk{Name: "gpu", Count: cards, MilliGPU: milli})
	w.Request[psg.CPU] = cpu
	return w
}

func TestSolve_SharesGoWhereWholeCardsAreNotBroken(t *testing.T) {
	half, whole := demandFor("half", 8, 500, 1, 100), demandFor("whole", 8, 1000, 1, 100)
	c := newCluster(Config{}, gpuNode("n1", "A100", 2), gpuNode("n2", "A100", 2), half, whole)
	c.commit(gate(half, "h1", "n2"))
	plan := c.solve(psg.Ask{ID: "h2", Workload: half.ID, At: at})
	wantPlaced(t, plan, 1)
	if got := plan.Placements[0]; got.Node != "n2" || got.Devices[0].Device != "n2-gpu0" {
		t.Errorf("on %s %v, want the opened card", got.Node, got.Devices)
	}
}

func TestSolve_WorkWithoutCardsSparesTheirProcessors(t *testing.T) {
	web, train := plainWorkload("web", 1), demandFor("train", 8, 1000, 1, 25_000)
	web.Request[psg.CPU] = 30_000
	plain := plainNode("z-plain") // last by ID
	plain.Capacity = psg.Resources{psg.CPU: 100_000, psg.Memory: 1_000_000}
	c := newCluster(Config{}, gpuNode("n1", "A100", 4), plain, web, train)
	plan := c.solve(asksFor(web, 1)...)
	wantPlaced(t, plan, 1)
	if got := plan.Placements[0].Node; got != "z-plain" {
		t.Errorf("on %s", got)
	}
}

func TestEngine_MixIsWhatIsRegisteredNow(t *testing.T) {
	kinds := []psg.Workload{demandFor("a", 3, 250, 1, 100), demandFor("b", 100, 500, 1, 200), demandFor("c", 7, 1000, 2, 300)}
	long := newCluster(Config{})
	for i, w := range kinds {
		w.Count = 1 + i
		long.Apply(psg.WorkloadChanged{Workload: w})
	}
	long.Apply(psg.WorkloadChanged{Workload: demandFor("gone", 500, 100, 1, 1)})
	long.Solve(Problem{})
	for _, w := range kinds {
		long.Apply(psg.WorkloadChanged{Workload: w})
	}
	long.Apply(psg.WorkloadGone{Workload: demandFor("gone", 500, 100, 1, 1).ID})
	fresh := newCluster(Config{}, kinds[2], kinds[0], kinds[1])
	long.Solve(Problem{})
	fresh.Solve(Problem{})
	if got, want := describeMix(long.Engine), describeMix(fresh.Engine); got != want || len(long.demands.mix) != 3 {
		t.Errorf("mix %s\nwant %s", got, want)
	}
}

func describeMix(e *Engine) string {
	text := ""
	for _, g := range e.demands.mix {
		text += fmt.Sprintf("%d x %d: %v; ", g.count, g.milli, g.members)
	}
	return text
}

func TestEngine_RememberedWorthIsTheWorth(t *testing.T) {
	for seed := range uint64(40) {
		w := newWorld(20_000 + seed)
		for range 5 {
			p := w.problem()
			for _, q := range w.Solve(p).Placements {
				w.Apply(psg.Placed{Placement: q})
				w.placements = append(w.placements, q)
			}
			w.shake()
			w.Solve(Problem{})
			for slot, remembered := range w.worths {
				n := w.slots[slot]
				if n == nil || remembered < 0 {
					continue
				}
				room := &w.rooms[slot]
				if is := w.worth(int32(slot), n.free, room.free[psg.CPU], room.free[psg.Memory]); is != remembered {
					t.Fatalf("seed %d: %s is worth %d, remembered %d", seed, n.name(), is, remembered)
				}
			}
		}
	}
}
