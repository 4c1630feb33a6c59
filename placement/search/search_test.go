package search

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestSolve_FindsTheOptimumOfSmallProblems(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		p := randomProblem(r, 2+r.IntN(3), 6)
		want := bruteForce(&p)
		got, err := Solve(p, Options{Seed: 1, Steps: 50_000})
		if err != nil {
			t.Fatal(err)
		}
		if got.Cost.Total() != want {
			t.Errorf("cost %d, optimum %d of %+v", got.Cost.Total(), want, p)
		}
		if err := p.Check(got.Assignment); err != nil {
			t.Error(err)
		}
	}
}

func TestSolve_SameSeedSameAssignment(t *testing.T) {
	p := randomProblem(rand.New(rand.NewPCG(3, 4)), 8, 40)
	first, err := Solve(p, Options{Seed: 7, Steps: 30_000})
	if err != nil {
		t.Fatal(err)
	}
	second, err := Solve(p, Options{Seed: 7, Steps: 30_000})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(first, second) {
		t.Errorf("%+v, then %+v", first, second)
	}
	other, err := Solve(p, Options{Seed: 8, Steps: 30_000})
	if err != nil {
		t.Fatal(err)
	}
	if slices.Equal(first.Assignment, other.Assignment) {
		t.Error("another seed gives the same assignment")
	}
}

// TestSolve_NearFindsTheFewMovesThatAreNeeded has one item too many on a node and
// one too few on another: whoever mixes all up does not get them home again in so
// few steps.
func TestSolve_NearFindsTheFewMovesThatAreNeeded(t *testing.T) {
	p := plain(12, 1000, 100, slices.Repeat([]int64{10}, 120)...)
	p.Resources[0].Weight = 10
	for i := range p.Items {
		p.Items[i].MoveCost, p.Initial[i] = 5, i%12
	}
	p.Initial[11] = 0
	near, err := Solve(p, Options{Seed: 1, Near: true, Steps: 100_000})
	if err != nil {
		t.Fatal(err)
	}
	far, err := Solve(p, Options{Seed: 1, Steps: 100_000})
	if err != nil {
		t.Fatal(err)
	}
	if want := (Cost{ItemMove: 5, GroupMove: 1}); near.Cost != want || far.Cost.Total() <= want.Total() {
		t.Errorf("near %+v, far %+v; want one item moved by the first alone", near.Cost, far.Cost)
	}
}

func TestSolve_EndsWhenTimeIsUsed(t *testing.T) {
	p := randomProblem(rand.New(rand.NewPCG(3, 4)), 8, 40)
	looks := 0
	got, err := Solve(p, Options{Used: func() float64 { looks++; return float64(looks) / 100 }})
	if err != nil {
		t.Fatal(err)
	}
	if looks > 200 || got.Cost.Total() > p.Cost(p.Initial).Total() {
		t.Errorf("%d looks at the time, cost %d", looks, got.Cost.Total())
	}
}

func TestSolve_RefusesWhatItCannotSearch(t *testing.T) {
	for want, spoil := range map[string]func(*Problem){
		"node 1: 2 capacities and 1 safe levels for 1 resources": func(p *Problem) { p.Nodes[1].Capacity = []int64{1, 2} },
		"node 0: 1 move costs for 2 nodes":                       func(p *Problem) { p.Nodes[0].MoveCost = []int64{1} },
		"node 1: neighbourhood 9 or location 1":                  func(p *Problem) { p.Nodes[1].Hood = 9 },
		"node 0: capacity, safe level or move cost -1":           func(p *Problem) { p.Nodes[0].Safe[0] = -1 },
		"group 0: near group 7 of 2":                             func(p *Problem) { p.Groups[0].Near = []int{7} },
		"item 1: group -1 of 2":                                  func(p *Problem) { p.Items[1].Group = -1 },
		"item 0: 0 needs for 1 resources":                        func(p *Problem) { p.Items[0].Need = nil },
		"item 0: move cost":                                      func(p *Problem) { p.Items[0].MoveCost = MaxQuantity + 1 },
		"balance 0: resources 0 and 1 of 1":                      func(p *Problem) { p.Balances = []Balance{{Second: 1}} },
		"resource 0: weight -1":                                  func(p *Problem) { p.Resources[0].Weight = -1 },
		"too large to be summed": func(p *Problem) {
			p.Resources[0].Weight, p.Nodes[0].Capacity[0] = MaxQuantity, MaxQuantity
		},
		"initial assignment: 1 nodes for 2 items":    func(p *Problem) { p.Initial = []int{0} },
		"initial assignment: item 1: node 2 of 2":    func(p *Problem) { p.Initial = []int{0, 2} },
		"initial assignment: node 0 holds 11 of res": func(p *Problem) { p.Items[0].Need[0] = 8 },
	} {
		p := plain(2, 10, 5, 3, 3)
		spoil(&p)
		if _, err := Solve(p, Options{Steps: 1}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := Solve(plain(2, 10, 5, 3), Options{}); err == nil {
		t.Error("a search without end is not refused")
	}
}

func TestSolve_NothingToDo(t *testing.T) {
	for _, p := range []Problem{{}, plain(1, 10, 5, 3, 3), plain(3, 10, 5)} {
		got, err := Solve(p, Options{Steps: 5_000})
		if err != nil || got.Cost != p.Cost(p.Initial) {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

func TestHalfway_IsTheFirstTemperatureThatHelps(t *testing.T) {
	temperatures := []float64{800, 400, 200, 100}
	for _, tc := range []struct {
		costs []float64
		want  float64
	}{
		{[]float64{120, 90, 60, 20}, 200}, // from 100 to 20: 60
		{[]float64{55, 50, 30, 20}, 800},
		{[]float64{120, 110, 105, 101}, coldest}, // nothing helps
		{nil, coldest},
	} {
		if got := halfway(temperatures, tc.costs, 100); got != tc.want {
			t.Errorf("%v: %g, want %g", tc.costs, got, tc.want)
		}
	}
}
