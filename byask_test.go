package psg

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// Whatever comes and goes, they hold what a map would, in order; those that were
// made before stay as they are; and leaves stay few and small.
func TestPlacements_HoldWhatAMapWould(t *testing.T) {
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var placements Placements
		want := map[RequestID]*Placement{}
		span := []int{10, 1000, 100_000}[seed%3]
		for step := range 40 {
			var changed []RequestID
			for range rng.IntN(300) {
				id := RequestID(fmt.Sprintf("%06d", rng.IntN(span)))
				if step > 25 || rng.IntN(3) == 0 {
					delete(want, id)
				} else {
					want[id] = &Placement{Ask: Ask{ID: id}, Node: NodeID(fmt.Sprint(step))}
				}
				changed = append(changed, id)
			}
			before, list := placements, slices.Collect(placements.All())
			placements = placements.Renew(changed, func(id RequestID) *Placement { return want[id] })
			checkPlacements(t, placements, want)
			checkSince(t, placements, before)
			if !slices.Equal(slices.Collect(before.All()), list) || before.Len() != len(list) {
				t.Fatalf("seed %d step %d: earlier placements changed", seed, step)
			}
		}
	}
}

func checkSince(t *testing.T, now, before Placements) {
	t.Helper()
	gone, come := now.Since(before)
	left := map[*Placement]bool{}
	for p := range before.All() {
		left[p] = true
	}
	for _, p := range gone {
		if !left[p] {
			t.Fatalf("%s is gone, and was not there", p.Ask.ID)
		}
		delete(left, p)
	}
	for _, p := range come {
		if left[p] {
			t.Fatalf("%s has come, and was there", p.Ask.ID)
		}
		left[p] = true
	}
	if len(left) != now.Len() {
		t.Fatalf("%d are left, want %d", len(left), now.Len())
	}
	for p := range now.All() {
		if !left[p] {
			t.Fatalf("%s is missing", p.Ask.ID)
		}
	}
}

func checkPlacements(t *testing.T, placements Placements, want map[RequestID]*Placement) {
	t.Helper()
	sorted := slices.Sorted(maps.Keys(want))
	i := 0
	for p := range placements.All() {
		if i >= len(sorted) || p != want[sorted[i]] || placements.Of(p.Ask.ID) != p {
			t.Fatalf("placement %d is %+v", i, p)
		}
		i++
	}
	if i != len(sorted) || placements.Len() != i {
		t.Fatalf("%d placements, Len %d, want %d", i, placements.Len(), len(sorted))
	}
	for _, absent := range []RequestID{"", "000005x", "zzz"} {
		if p := placements.Of(absent); p != nil {
			t.Fatalf("Of(%q) = %+v", absent, p)
		}
	}
	if most := 2 + 4*len(sorted)/(leafSize/4); len(placements.leaves) > most {
		t.Fatalf("%d leaves for %d placements, want at most %d", len(placements.leaves), len(sorted), most)
	}
	for _, leaf := range placements.leaves {
		if len(leaf) == 0 || len(leaf) > leafSize {
			t.Fatalf("a leaf of %d", len(leaf))
		}
	}
}

func TestPlacements_RenewCostsWhatChanged(t *testing.T) {
	list := make([]Placement, 100_000)
	for i := range list {
		list[i].Ask.ID = RequestID(fmt.Sprintf("%06d", i))
	}
	placements := PlacementsOf(list...)
	next := placements.Renew([]RequestID{"050000", "999999"}, func(id RequestID) *Placement { return &Placement{Ask: Ask{ID: id}} })
	shared := 0
	for i, leaf := range next.leaves {
		if &leaf[0] == &placements.leaves[min(i, len(placements.leaves)-1)][0] {
			shared++
		}
	}
	if made := len(next.leaves) - shared; made > 3 || next.Len() != 100_001 {
		t.Errorf("%d of %d leaves are new for two changes, %d placements", made, len(next.leaves), next.Len())
	}
	if same := placements.Renew(nil, nil); &same.leaves[0] != &placements.leaves[0] {
		t.Error("no change made others")
	}
}

func TestPlacements_OfSeveralForOneAskTheLastStays(t *testing.T) {
	placements := PlacementsOf(Placement{Ask: Ask{ID: "b"}}, Placement{Ask: Ask{ID: "a"}, Node: "n1"}, Placement{Ask: Ask{ID: "a"}, Node: "n2"})
	if placements.Len() != 2 || placements.Of("a").Node != "n2" {
		t.Errorf("placements = %+v", slices.Collect(placements.All()))
	}
	text, err := json.Marshal(Snapshot{Placements: placements})
	if err != nil {
		t.Fatal(err)
	}
	var read Snapshot
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	if read.Placements.Len() != 2 || read.Placements.Of("a").Node != "n2" || read.Placements.Of("b") == nil {
		t.Errorf("read back from %s: %+v", text, slices.Collect(read.Placements.All()))
	}
}
