package policies

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

// crowd is a cluster of many placements.
func crowd(nodes, workloads, placements int) *psg.Snapshot {
	s := &psg.Snapshot{At: time.Unix(1000, 0)}
	for i := range nodes {
		id := psg.NodeID(fmt.Sprintf("6f2c1a90-0000-0000-0000-%08d", i))
		s.Nodes = append(s.Nodes, psg.Node{ID: id, Version: 1, Name: string(id), Ready: true})
	}
	for i := range workloads {
		s.Workloads = append(s.Workloads, psg.Workload{ID: psg.WorkloadID{Namespace: "default", Job: fmt.Sprintf("job-%05d", i), Group: "web"}, Version: 1})
	}
	s.Sort()
	list := make([]psg.Placement, placements)
	for i := range list {
		list[i] = psg.Placement{Ask: psg.Ask{ID: psg.RequestID(fmt.Sprintf("%08d", i)), Workload: s.Workloads[i%workloads].ID, Alloc: "a"}, Node: s.Nodes[i%nodes].ID, State: psg.Running}
	}
	s.Placements = psg.PlacementsOf(list...)
	return s
}

// stirred is a later snapshot in which some placements came, went or changed.
func stirred(r *rand.Rand, s *psg.Snapshot, n int) *psg.Snapshot {
	next := *s
	next.At = s.At.Add(time.Second)
	made := map[psg.RequestID]*psg.Placement{}
	var changed []psg.RequestID
	for range n {
		id := psg.RequestID(fmt.Sprintf("%08d", r.IntN(s.Placements.Len()+100)))
		changed = append(changed, id)
		if r.IntN(3) == 0 {
			delete(made, id)
			continue
		}
		p := &psg.Placement{Ask: psg.Ask{ID: id, Workload: s.Workloads[r.IntN(len(s.Workloads))].ID}, Node: s.Nodes[r.IntN(len(s.Nodes))].ID, State: psg.Granted}
		switch r.IntN(6) {
		case 0:
			p.Ask.Hold, p.State = time.Minute, psg.Reserved
		case 1:
			p.Node = "elsewhere"
		case 2:
			p.Ask.Workload.Job = "unknown"
		case 3:
			p.State = psg.Released
		}
		made[id] = p
	}
	next.Placements = s.Placements.Renew(changed, func(id psg.RequestID) *psg.Placement { return made[id] })
	return &next
}

// What holds room is the same whether it is made afresh or from what did before.
func TestView_FollowsWhatHoldsRoom(t *testing.T) {
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 1))
		v, s := &viewer{}, crowd(20, 7, 600)
		v.of(s, &feeds{})
		for step := range 30 {
			before := v.last
			held := slices.Clone(before.holding.residents)
			s = stirred(r, s, 1+r.IntN(40))
			switch r.IntN(10) {
			case 0:
				s.Workloads = slices.Clone(s.Workloads)
				s.Workloads[r.IntN(len(s.Workloads))].Version++
			case 1:
				s.Nodes = slices.Clone(s.Nodes)
				s.Nodes[r.IntN(len(s.Nodes))].Version++
			case 2:
				s.Nodes = slices.Delete(slices.Clone(s.Nodes), 3, 4)
			}
			got, want := v.of(s, &feeds{}), (&viewer{}).of(s, &feeds{})
			for row := range want.nodes {
				if !slices.EqualFunc(got.holding.residents[row], want.holding.residents[row], sameResident) ||
					!slices.EqualFunc(got.nodes[row].residents, want.nodes[row].residents, sameResident) {
					t.Fatalf("seed %d step %d row %d: %v, want %v", seed, step, row, got.holding.residents[row], want.holding.residents[row])
				}
			}
			if !reflect.DeepEqual(got.holding.reserved, want.holding.reserved) {
				t.Fatalf("seed %d step %d: reserved %v, want %v", seed, step, got.holding.reserved, want.holding.reserved)
			}
			for row := range held {
				if !slices.Equal(held[row], before.holding.residents[row]) {
					t.Fatalf("seed %d step %d: the view before has changed", seed, step)
				}
			}
		}
	}
}

// sameResident reports whether two residents are of the same placement and of equal
// workloads.
func sameResident(a, b resident) bool {
	return reflect.DeepEqual(a.placement, b.placement) && reflect.DeepEqual(a.workload, b.workload)
}

// BenchmarkView is a view of 5,000 nodes and 100,000 placements after 50 of them
// have changed.
func BenchmarkView(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	s, v := crowd(5000, 2000, 100_000), &viewer{}
	v.of(s, &feeds{})
	for b.Loop() {
		s = stirred(r, s, 50)
		v.of(s, &feeds{})
	}
}
