package placement

import (
	"slices"
	"testing"

	"github.com/psgrid/psg"
)

func (c *cluster) rehearse(moves ...Move) (made int, gain int64) {
	return c.Rehearse(Problem{Now: at, Rows: c.rows, Rulings: c.rulings}, moves)
}

// threeSteps is an exchange by way of a third node that has yet to begin.
func threeSteps(t *testing.T) (*cluster, psg.Workload, []Move) {
	a, b := prefers("a", "fast", 3000), prefers("b", "large", 4000)
	c := newCluster(Config{}, a, b, classNode("n1", "large", 4000), classNode("n2", "fast", 4000), classNode("n3", "slow", 3000))
	wantPlaced(t, c.commit(gate(a, "a", "n1"), gate(b, "b", "n2")), 2)
	m := c.improve(9)
	wantMoves(t, m, "a n1>n3", "b n2>n1", "a n3>n2")
	return c, b, m.Moves
}

func TestRehearse_OfWhatHasNotChangedSaysWhatImproveDid(t *testing.T) {
	c, _, moves := threeSteps(t)
	made, gain := c.rehearse(moves...)
	if made != 3 || gain != moves[2].Gain {
		t.Errorf("%d made, gain %d; want 3 and %d", made, gain, moves[2].Gain)
	}
	for _, step := range moves[:2] {
		c.carry(t, Improvement{Moves: []Move{step}})
		moves = moves[1:]
		if made, gain = c.rehearse(moves...); made != len(moves) || gain <= 0 {
			t.Errorf("the last %d: %d made, gain %d; want all, and that they pay", len(moves), made, gain)
		}
	}
}

func TestRehearse_StopsAtWhatCannotBeMade(t *testing.T) {
	for name, one := range map[string]struct {
		change func(*cluster, psg.Workload)
		made   int
	}{
		"as found":                   {func(*cluster, psg.Workload) {}, 3},
		"the third node has gone":    {func(c *cluster, _ psg.Workload) { c.Apply(psg.NodeGone{Node: "n3"}) }, 0},
		"the first of them has gone": {func(c *cluster, _ psg.Workload) { c.Apply(psg.Freed{Ask: "a", At: at}) }, 0},
		"policy denies the last":     {func(c *cluster, _ psg.Workload) { c.deny(prefers("a", "fast", 3000), "no", "n2") }, 2},
		"the second is on its way":   {func(c *cluster, _ psg.Workload) { c.Apply(psg.Moved{Ask: "b", State: psg.Moving, At: at}) }, 1},
		"policy protects the second now": {func(c *cluster, b psg.Workload) {
			c.rulings[b.ID] = &psg.Ruling{Workload: b.ID, Protected: []psg.Reason{{Text: "stays"}}}
		}, 1},
	} {
		c, b, moves := threeSteps(t)
		one.change(c, b)
		before := c.improve(9)
		if made, _ := c.rehearse(moves...); made != one.made {
			t.Errorf("%s: %d made, want %d", name, made, one.made)
		}
		if after := c.improve(9); !slices.EqualFunc(before.Moves, after.Moves, func(a, b Move) bool { return a.Placement.Node == b.Placement.Node }) {
			t.Errorf("%s: the engine is not as it was", name)
		}
	}
}

func TestRehearse_GainsNothingWhereTheReasonIsGone(t *testing.T) {
	c, _, moves := threeSteps(t)
	a := prefers("a", "", 3000)
	c.Apply(psg.WorkloadChanged{Workload: a})
	b := prefers("b", "", 4000)
	c.Apply(psg.WorkloadChanged{Workload: b})
	if made, gain := c.rehearse(moves...); made != 3 || gain >= 0 {
		t.Errorf("%d made, gain %d; want all of them, at a loss", made, gain)
	}
}

// TestRehearse_SaysWhatImproveSaysInRandomClusters carries out what Improve finds,
// chain by chain, and has each rehearsed first.
func TestRehearse_SaysWhatImproveSaysInRandomClusters(t *testing.T) {
	chains := map[int]int{}
	for seed := range uint64(40) {
		w, p := thinned(t, 71_000+seed)
		for moves := w.Improve(p, 50).Moves; len(moves) > 0; moves = w.Improve(p, 50).Moves {
			for len(moves) > 0 {
				end := slices.IndexFunc(moves, func(m Move) bool { return m.Chain != moves[0].Chain })
				if end < 0 {
					end = len(moves)
				}
				chain := moves[:end]
				moves = moves[end:]
				chains[end]++
				plain := !slices.ContainsFunc(chain, func(m Move) bool { return !w.plain(m.Placement) })
				if made, gain := w.Rehearse(p, chain); made != end || plain && gain != chain[end-1].Gain {
					t.Fatalf("seed %d: %d made of %+v, gain %d", seed, made, chain, gain)
				}
				w.carry(t, Improvement{Moves: chain})
			}
		}
	}
	if chains[1] < 10 || chains[2] < 3 {
		t.Errorf("chains by moves %v: the test shows little", chains)
	}
}
