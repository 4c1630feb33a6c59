package placement

import (
	"slices"
	"testing"

	"github.com/psgrid/psg"
)

var h100Profiles = []string{"1g.10gb", "1g.10gb+me", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"}

func TestGeometry_StartsAreNvidias(t *testing.T) {
	for _, tc := range []struct {
		memoryMB int64
		profiles []string
		name     string
		want     []int
	}{
		{81559, h100Profiles, "1g.10gb", []int{0, 1, 2, 3, 4, 5, 6}},
		{81559, h100Profiles, "1g.20gb", []int{0, 2, 4, 6}},
		{81559, h100Profiles, "2g.20gb", []int{0, 2, 4}},
		{81559, h100Profiles, "3g.40gb", []int{0, 4}},
		{81559, h100Profiles, "4g.40gb", []int{0}},
		{81559, h100Profiles, "7g.80gb", []int{0}},
		{40536, []string{"1g.5gb", "3g.20gb", "7g.40gb"}, "1g.5gb", []int{0, 1, 2, 3, 4, 5, 6}},
		{40536, []string{"1g.5gb", "3g.20gb", "7g.40gb"}, "3g.20gb", []int{0, 4}},
		{40536, []string{"1g.10gb"}, "1g.10gb", []int{0, 2, 4, 6}},
		{143771, []string{"1g.18gb", "7g.141gb"}, "1g.18gb", []int{0, 1, 2, 3, 4, 5, 6}},
		{143771, []string{"2g.35gb", "7g.141gb"}, "2g.35gb", []int{0, 2, 4}},
		{24258, []string{"1g.6gb", "2g.12gb", "4g.24gb"}, "1g.6gb", []int{0, 1, 2, 3}},
		{24258, []string{"1g.6gb", "2g.12gb", "4g.24gb"}, "2g.12gb", []int{0, 2}},
		{24258, []string{"1g.6gb", "2g.12gb", "4g.24gb"}, "4g.24gb", []int{0}},
		{81559, h100Profiles, "8g.80gb", nil},
		{81559, h100Profiles, "1g.999gb", nil},
	} {
		g := cardGeometry(tc.profiles, tc.memoryMB)
		var got []int
		if p, ok := g.profile(tc.name); ok {
			g.starts(p, 0, func(at int) { got = append(got, at) })
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s on %d MiB starts at %v, want %v", tc.name, tc.memoryMB, got, tc.want)
		}
	}
}

func migNode(name string, cards int) psg.Node {
	n := gpuNode(name, "H100", cards)
	for i := range n.Devices {
		n.Devices[i].Profiles = h100Profiles
	}
	return n
}

func TestSolve_SlicesLeaveRoomForWideOnes(t *testing.T) {
	small := gpuWorkload("small", 8, psg.DeviceAsk{Name: "gpu", Count: 1, Profile: "1g.10gb"})
	wide := gpuWorkload("wide", 2, psg.DeviceAsk{Name: "gpu", Count: 1, Profile: "4g.40gb"})
	c := newCluster(Config{}, migNode("n1", 1), small, wide)
	plan := c.commit(asksFor(small, 3)...)
	wantPlaced(t, plan, 3)
	for i, want := range []int{6, 5, 4} {
		if got := plan.Placements[i].Devices[0].Slot; got != want {
			t.Errorf("slice %d starts at %d, want %d", i, got, want)
		}
	}
	wantPlaced(t, c.commit(asksFor(wide, 2)...), 1) // at 0, where it alone may start
	wantPlaced(t, c.solve(psg.Ask{ID: "more", Workload: small.ID, At: at}), 0)
}

func TestSolve_CutCardsAreNotShared(t *testing.T) {
	slice := gpuWorkload("slice", 9, psg.DeviceAsk{Name: "gpu", Count: 1, Profile: "3g.40gb"})
	half := gpuWorkload("half", 9, psg.DeviceAsk{Name: "gpu", Count: 1, MilliGPU: 500})
	whole := gpuWorkload("whole", 9, psg.DeviceAsk{Name: "gpu", Count: 1, MilliGPU: 1000})
	c := newCluster(Config{}, migNode("n1", 2), slice, half, whole)
	wantPlaced(t, c.commit(asksFor(slice, 2)...), 2) // both on one card
	wantPlaced(t, c.commit(asksFor(half, 2)...), 2)  // both on the other
	wantPlaced(t, c.solve(asksFor(whole, 1)...), 0)
	more := psg.Ask{ID: "more", Workload: slice.ID, At: at}
	wantPlaced(t, c.solve(more), 0)
	c.Apply(psg.Freed{Ask: "half-000", At: at})
	wantPlaced(t, c.solve(more), 0) // the other card is still shared by one
	c.Apply(psg.Freed{Ask: "half-001", At: at})
	wantPlaced(t, c.solve(more), 1)
}

func TestSolve_MediaExtensionsOncePerCard(t *testing.T) {
	media := gpuWorkload("media", 2, psg.DeviceAsk{Name: "gpu", Count: 1, Profile: "1g.10gb+me"})
	c := newCluster(Config{}, migNode("n1", 1), media)
	wantPlaced(t, c.solve(asksFor(media, 2)...), 1)
}

func TestSolve_RequiredNUMAKeepsCardsTogether(t *testing.T) {
	n := gpuNode("n1", "A100", 4)
	for i := range n.Devices {
		n.Devices[i].NUMA = i % 2
	}
	n.Devices[2].Foreign = true // NUMA 0 has one card left
	pair := gpuWorkload("pair", 2, psg.DeviceAsk{Name: "gpu", Count: 2, MilliGPU: 1000})
	pair.NUMA = "require"
	c := newCluster(Config{}, n, pair)
	plan := c.commit(asksFor(pair, 2)...)
	wantPlaced(t, plan, 1)
	if d := plan.Placements[0].Devices; d[0].Device != "n1-gpu1" || d[1].Device != "n1-gpu3" {
		t.Errorf("cards %v", d)
	}
	wantSummary(t, plan, 0, psg.Queued, "no node has room: device whole gpu: 1 of 2 free on n1")
}

func TestSolve_DeviceConstraintsCompareUnits(t *testing.T) {
	small, large := gpuNode("n1", "A100", 1), gpuNode("n2", "A100", 1)
	small.Devices[0].Attributes = map[string]string{"memory": "40 GiB"}
	large.Devices[0].Attributes = map[string]string{"memory": "81559 MiB"}
	w := gpuWorkload("train", 1, psg.DeviceAsk{Name: "nvidia/gpu/A100", Count: 1, MilliGPU: 1000, Constraints: []psg.Constraint{
		{Left: "${device.attr.memory}", Operator: psg.GreaterEqual, Right: "64 GiB"},
	}})
	plan := newCluster(Config{}, small, large, w).solve(asksFor(w, 2)...)
	wantPlaced(t, plan, 1)
	if plan.Placements[0].Node != "n2" {
		t.Errorf("on %s", plan.Placements[0].Node)
	}
}
