package search

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Whatever is allowed and made, cost and rules are what counting afresh says;
// whatever is not allowed breaks a rule.
func TestState_AgreesWithCountingAfresh(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 60 {
		p := randomProblem(r, 3+r.IntN(5), 8+r.IntN(20))
		s := newState(newModel(&p))
		for range 400 {
			tryShift(t, r, &p, s)
			trySwap(t, r, &p, s)
		}
		if at := s.assignment(); s.cost != p.Cost(at).Total() {
			t.Fatalf("cost %d, counted %d", s.cost, p.Cost(at).Total())
		}
	}
}

func tryShift(t *testing.T, r *rand.Rand, p *Problem, s *state) {
	t.Helper()
	item, to := r.IntN(s.items), r.IntN(s.nodes)
	if int(s.at[item]) == to {
		return
	}
	at := s.assignment()
	at[item] = to
	if err := p.Check(at); (err == nil) != s.allowsShift(item, to) {
		t.Fatalf("shift allowed: %t, rules: %v", err != nil, err)
	} else if err != nil {
		return
	}
	d := s.shiftDelta(item, to)
	if want := p.Cost(at).Total() - s.cost; d != want {
		t.Fatalf("shift costs %d more, counted %d", d, want)
	}
	s.shift(item, to, d)
}

func trySwap(t *testing.T, r *rand.Rand, p *Problem, s *state) {
	t.Helper()
	one, two := r.IntN(s.items), r.IntN(s.items)
	if s.at[one] == s.at[two] {
		return
	}
	at := s.assignment()
	at[one], at[two] = at[two], at[one]
	if err := p.Check(at); (err == nil) != s.allowsSwap(one, two) {
		t.Fatalf("swap allowed: %t, rules: %v", err != nil, err)
	} else if err != nil {
		return
	}
	d := s.swapDelta(one, two)
	if want := p.Cost(at).Total() - s.cost; d != want {
		t.Fatalf("swap costs %d more, counted %d", d, want)
	}
	s.swap(one, two, d)
}

// Two full nodes: no shift or swap of the large item is allowed, but it may go
// where the small ones are if all of them leave.
func TestEject_MakesRoomForLargeItem(t *testing.T) {
	p := plain(2, 10, 10, 9, 3, 3, 3)
	p.Initial = []int{1, 0, 0, 0}
	for bearable, want := range map[int64][]int{100: {0, 1, 1, 1}, 0: {1, 0, 0, 0}} {
		s := newSearcher(&p, Options{Steps: 1})
		for small := 1; small <= 3; small++ {
			if s.allowsShift(small, 1) || s.allowsSwap(0, small) {
				t.Fatal("there is an easier way")
			}
		}
		if s.eject(0, 0, bearable); !slices.Equal(s.assignment(), want) {
			t.Errorf("with %d bearable: %v, want %v", bearable, s.assignment(), want)
		}
	}
}

func TestEject_IsMadeOrTakenBackWhole(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	made, refused := 0, 0
	for range 30 {
		p := randomProblem(r, 3+r.IntN(3), 8+r.IntN(20))
		s := newSearcher(&p, Options{Steps: 1, Seed: r.Uint64()})
		for range 300 {
			item, to := r.IntN(s.items), r.IntN(s.nodes)
			if int(s.at[item]) == to {
				continue
			}
			before, cost := slices.Clone(s.at), s.cost
			s.eject(item, to, 10)
			if slices.Equal(before, s.at) {
				refused++
			} else {
				made++
			}
			at := s.assignment()
			if err := p.Check(at); err != nil {
				t.Fatal(err)
			}
			if s.cost != p.Cost(at).Total() || s.cost-cost > 10 {
				t.Fatalf("cost %d after %d, counted %d", s.cost, cost, p.Cost(at).Total())
			}
		}
	}
	if made == 0 || refused == 0 {
		t.Errorf("%d made, %d refused", made, refused)
	}
}

func TestRules_EachRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil   func(*Problem)
		initial []int
		to      int // of item 0
	}{
		"capacity":     {func(p *Problem) { p.Nodes[1].Capacity[0] = 5 }, []int{0, 1}, 1},
		"conflict":     {func(p *Problem) { p.Items[1].Group = 0; p.Groups[0].Apart = true }, []int{0, 1}, 1},
		"spread":       {func(p *Problem) { p.Items[1].Group = 0; p.Groups[0].MinLocations = 2 }, []int{0, 1}, 1},
		"dependency":   {func(p *Problem) { p.Groups[0].Near = []int{1} }, []int{0, 0}, 1},
		"dependant":    {func(p *Problem) { p.Groups[1].Near = []int{0} }, []int{0, 0}, 1},
		"own capacity": {func(p *Problem) { p.Nodes[1].Capacity[0] = 2 }, []int{0, 0}, 1},
	} {
		p := plain(2, 10, 5, 3, 3)
		p.Initial = tc.initial
		if !newState(newModel(&p)).allowsShift(0, tc.to) {
			t.Errorf("%s: refused without the rule", name)
		}
		tc.spoil(&p)
		if err := p.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		after := slices.Clone(tc.initial)
		after[0] = tc.to
		if newState(newModel(&p)).allowsShift(0, tc.to) || p.Check(after) == nil {
			t.Errorf("%s: not refused", name)
		}
	}
}

// A moved item holds a transient resource on its first node too, until it is
// back.
func TestRules_TransientIsHeldAtHome(t *testing.T) {
	p := plain(3, 10, 5, 6, 6)
	p.Initial = []int{0, 1}
	for transient, want := range map[bool]bool{false: true, true: false} {
		p.Resources[0].Transient = transient
		s := newState(newModel(&p))
		s.shift(0, 2, s.shiftDelta(0, 2))
		if got := s.allowsShift(1, 0); got != want {
			t.Errorf("transient %t: allowed %t", transient, got)
		}
		if err := p.Check([]int{2, 0}); (err == nil) != want {
			t.Errorf("transient %t: %v", transient, err)
		}
		if !s.allowsShift(0, 0) {
			t.Errorf("transient %t: may not go home", transient)
		}
	}
}

// Two groups that must be near each other: neither may leave before the other.
func TestTogether_GroupsThatNeedEachOtherLeaveAtOnce(t *testing.T) {
	p := plain(2, 10, 10, 4, 4, 1)
	p.Groups[0].Near, p.Groups[1].Near = []int{1}, []int{0}
	p.Nodes[0].Safe[0] = 0
	for bearable, want := range map[int64][]int{100: {1, 1, 0}, -100: {0, 0, 0}} { // it saves 8
		s := newSearcher(&p, Options{Steps: 1})
		if s.allowsShift(0, 1) || s.allowsShift(1, 1) {
			t.Fatal("there is an easier way")
		}
		if s.together(0, 1, bearable); !slices.Equal(s.assignment(), want) || s.cost != p.Cost(want).Total() {
			t.Errorf("with %d bearable: %v at a cost of %d, want %v", bearable, s.assignment(), s.cost, want)
		}
	}
	got, err := Solve(p, Options{Seed: 1, Steps: 100_000})
	if err != nil || !slices.Equal(got.Assignment, []int{1, 1, 1}) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestTogether_IsMadeOrTakenBackWhole(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	made, refused := 0, 0
	for range 60 {
		p := anyProblem(r, 3+r.IntN(4), 6+r.IntN(20))
		s := newSearcher(&p, Options{Steps: 1, Seed: r.Uint64()})
		for range 200 {
			item, to := r.IntN(s.items), r.IntN(s.nodes)
			if int(s.at[item]) == to || s.allowsShift(item, to) {
				continue
			}
			before := slices.Clone(s.at)
			s.together(item, to, 1000)
			if slices.Equal(before, s.at) {
				refused++
			} else {
				made++
			}
			if cost, broken := referee(&p, s.assignment()); len(broken) > 0 || s.cost != cost {
				t.Fatalf("cost %d, referee %d %v", s.cost, cost, broken)
			}
		}
	}
	if made < 50 || refused < 50 {
		t.Errorf("%d made, %d refused", made, refused)
	}
}
