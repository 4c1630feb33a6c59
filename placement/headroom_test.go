package placement

import (
	"slices"
	"testing"

	"github.com/psgrid/psg"
)

// points is what a part adds to a placement's score, 0 where it is not named.
func points(p psg.Placement, name string) int64 {
	i := slices.IndexFunc(p.Score, func(part psg.ScorePart) bool { return part.Name == name })
	if i < 0 {
		return 0
	}
	return p.Score[i].Points
}

// bursting is guaranteed 1 GiB and may take 4.
func bursting(name string, count int) psg.Workload {
	w := plainWorkload(name, count)
	w.Request = psg.Resources{psg.CPU: 100, psg.Memory: 1024, psg.MemoryMax: 4096}
	return w
}

func TestSolve_KeepsHeadroomForBursts(t *testing.T) {
	w := bursting("w", 5)
	plan := newCluster(Config{}, w, plainNode("n1"), plainNode("n2")).solve(asksFor(w, 5)...)
	wantPlaced(t, plan, 5)
	// Of 8 GiB two guarantee 2 and leave 6, which is what they may burst to. A
	// third leaves 5 where 9 may be wanted: 4 of 8 GiB are lacking.
	for i, want := range []int64{0, 0, 0, 0, -1000} {
		if got := points(plan.Placements[i], "headroom"); got != want {
			t.Errorf("instance %d has %d for headroom, want %d", i, got, want)
		}
	}
	if on := perNode(plan); on["n1"] != 3 || on["n2"] != 2 {
		t.Errorf("placed %v: packing leads only while all may burst", on)
	}
}

func TestSolve_LeavesHeadroomToThoseWhoHaveIt(t *testing.T) {
	may, plain := bursting("may", 2), plainWorkload("plain", 1)
	c := newCluster(Config{}, may, plain, plainNode("n1"), plainNode("n2"))
	for i, ask := range asksFor(may, 2) {
		ask.Node = "n1"
		wantPlaced(t, c.commit(ask), 1)
		if points(c.held[ask.ID].placement, "headroom") != 0 {
			t.Errorf("instance %d lacks headroom", i)
		}
	}
	plain.Request[psg.Memory], plain.Request[psg.MemoryMax] = 1024, 1024
	c.Apply(psg.WorkloadChanged{Workload: plain})
	if on := perNode(c.solve(asksFor(plain, 1)...)); on["n2"] != 1 {
		t.Errorf("placed %v, want it where it takes nobody's headroom", on)
	}
}

func TestSolve_HeadroomIsOfWhatIsProjectedToStayUnused(t *testing.T) {
	w := bursting("w", 1)
	for name, full := range map[string]psg.NodeObserved{
		"projected": {Projection: &psg.Projection{Upper: psg.Resources{psg.Memory: 6600}}},
		"measured":  {Telemetry: psg.Telemetry{Metrics: map[string]psg.Stats{"memory_used_mb": {P95: 6600}}}},
	} {
		c := newCluster(Config{}, w, plainNode("n1"), plainNode("n2"))
		full.Node = "n1"
		c.solve(asksFor(w, 1)...)
		c.solve(asksFor(w, 1)...) // its order of candidates is kept
		c.Apply(full)
		if on := perNode(c.solve(asksFor(w, 1)...)); on["n2"] != 1 {
			t.Errorf("%s: placed %v, want it where memory is free", name, on)
		}
		c.deny(w, "elsewhere", "n2")
		// 8 tenths of 8192 MiB are used, 1638 are left, 4096 may be wanted.
		if got := points(c.solve(asksFor(w, 1)...).Placements[0], "headroom"); got != -600 {
			t.Errorf("%s: %d for headroom", name, got)
		}
	}
}

func TestSolve_WithoutBurstsHeadroomSaysNothing(t *testing.T) {
	w := plainWorkload("w", 40)
	for _, p := range newCluster(Config{}, w, plainNode("n1"), plainNode("n2")).solve(asksFor(w, 40)...).Placements {
		if points(p, "headroom") != 0 {
			t.Errorf("%+v", p)
		}
	}
}
