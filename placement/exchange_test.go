package placement

import (
	"slices"
	"testing"

	"github.com/psgrid/psg"
)

// prefers is a workload of one instance that is drawn to nodes of a class, and
// takes so much of a node's memory.
func prefers(name, class string, memoryMB int64) psg.Workload {
	w := plainWorkload(name, 1)
	w.Request = psg.Resources{psg.Memory: memoryMB}
	if class != "" {
		w.Affinities = []psg.Affinity{{Constraint: psg.Constraint{Left: "${node.class}", Operator: psg.Equal, Right: class}, Weight: 100}}
	}
	return w
}

func classNode(name, class string, memoryMB int64) psg.Node {
	n := plainNode(name)
	n.Class = class
	n.Capacity[psg.Memory] = memoryMB
	return n
}

// wantMoves checks where an improvement takes whom, step by step.
func wantMoves(t *testing.T, got Improvement, want ...string) {
	t.Helper()
	var moves []string
	for _, m := range got.Moves {
		moves = append(moves, string(m.Placement.Ask.Workload.Job+" "+string(m.From)+">"+string(m.Placement.Node)))
	}
	if !slices.Equal(moves, want) {
		t.Fatalf("moves %q, want %q", moves, want)
	}
}

func TestImprove_TwoChangePlacesBesideEachOther(t *testing.T) {
	a, b := prefers("a", "fast", 3000), prefers("b", "", 2000)
	c := newCluster(Config{}, a, b, classNode("n1", "slow", 5000), classNode("n2", "fast", 4000))
	wantPlaced(t, c.commit(gate(a, "a", "n1"), gate(b, "b", "n2")), 2)
	wantMoves(t, c.improve(1))
	m := c.improve(2)
	wantMoves(t, m, "b n2>n1", "a n1>n2")
	if m.Moves[0].Gain != 0 || m.Moves[1].Gain < 9_000 {
		t.Errorf("gains %d and %d", m.Moves[0].Gain, m.Moves[1].Gain)
	}
	c.carry(t, m)
	wantMoves(t, c.improve(9))
}

// TestImprove_TwoChangePlacesByWayOfAThird: neither fits beside the other.
func TestImprove_TwoChangePlacesByWayOfAThird(t *testing.T) {
	a, b := prefers("a", "fast", 3000), prefers("b", "large", 4000)
	c := newCluster(Config{}, a, b, classNode("n1", "large", 4000), classNode("n2", "fast", 4000))
	wantPlaced(t, c.commit(gate(a, "a", "n1"), gate(b, "b", "n2")), 2)
	wantMoves(t, c.improve(9))
	c.addNode(classNode("n3", "slow", 3000))
	wantMoves(t, c.improve(2), "a n1>n3", "b n2>n1") // one of them alone is better off
	m := c.improve(3)
	wantMoves(t, m, "a n1>n3", "b n2>n1", "a n3>n2")
	c.carry(t, m)
	wantMoves(t, c.improve(9))
}

func TestImprove_WhoIsInTheWayGoesElsewhere(t *testing.T) {
	a, b := prefers("a", "fast", 3000), prefers("b", "", 2000)
	a2 := prefers("fixed", "", 2000)
	a2.Labels = map[string]string{psg.ManagedLabel: "false"}
	for name, change := range map[string]func(*cluster){
		"as it is": func(*cluster) {},
		"protected": func(c *cluster) {
			c.rulings[b.ID] = &psg.Ruling{Workload: b.ID, Protected: []psg.Reason{{Source: "policy p", Text: "stays"}}}
		},
	} {
		c := newCluster(Config{}, a, b, a2, classNode("n1", "slow", 5000), classNode("n2", "fast", 4000), classNode("n3", "slow", 2000))
		wantPlaced(t, c.commit(gate(a, "a", "n1"), gate(b, "b", "n2"), gate(a2, "x", "n1")), 3)
		change(c)
		wantMoves(t, c.improve(1))
		m := c.improve(9)
		if name == "protected" {
			wantMoves(t, m)
			continue
		}
		wantMoves(t, m, "b n2>n3", "a n1>n2")
		c.carry(t, m)
		wantMoves(t, c.improve(9))
	}
}

// TestImprove_MakesWhatItFoundInTime ends the time at every point there is.
func TestImprove_MakesWhatItFoundInTime(t *testing.T) {
	a, b := prefers("a", "fast", 3000), prefers("b", "large", 4000)
	alone := prefers("alone", "fast", 500)
	moves := map[int]int{}
	for end, looks := 1, 1; looks >= end-1; end++ {
		c := newCluster(Config{}, a, b, alone, classNode("n1", "large", 4000), classNode("n2", "fast", 4000), classNode("n3", "slow", 3500), classNode("n4", "fast", 500))
		wantPlaced(t, c.commit(gate(a, "a", "n1"), gate(b, "b", "n2"), gate(alone, "alone", "n3")), 3)
		looks = 0
		m := c.Improve(Problem{Now: at, Rows: c.rows, Stop: func() bool { looks++; return looks >= end }}, 9)
		moves[len(m.Moves)]++
		c.carry(t, m)
	}
	if moves[0] == 0 || moves[1] == 0 || moves[4] == 0 || len(moves) != 3 {
		t.Errorf("times by moves made: %v; want none, the one that pays by itself, and that with the three of the exchange", moves)
	}
}

// put asks an engine for a place, on a node if one is named, and applies it.
func put(e *Engine, p Problem, q psg.Placement, node psg.NodeID) (got psg.Placement, points int64, ok bool) {
	p.Asks = []psg.Ask{{ID: q.Ask.ID, Workload: q.Ask.Workload, Alloc: psg.AllocID(node), Node: node, At: at}}
	plan := e.Solve(p)
	if len(plan.Placements) == 0 {
		return got, 0, false
	}
	got = plan.Placements[0]
	for _, part := range got.Score {
		points += part.Points
	}
	e.Apply(psg.Placed{Placement: got})
	return got, points, true
}

func (e *Engine) free(list ...psg.Placement) {
	for _, q := range list {
		e.Apply(psg.Freed{Ask: q.Ask.ID, State: psg.Released, At: at})
	}
}

// exchangeOf is the dumb reading of an exchange, on an engine built afresh: what it
// gains that a takes b's room and b goes to another node.
func (w *world) exchangeOf(p Problem, a, b psg.Placement, goal psg.NodeID) (gain int64, ok bool) {
	e := w.afresh()
	e.free(a, b)
	_, here, _ := put(e, p, a, a.Node) // 0 where policy denies it now
	_, was, _ := put(e, p, b, b.Node)
	e.free(a, b)
	_, there, fits := put(e, p, a, b.Node)
	_, then, also := put(e, p, b, goal)
	return there + then - here - was - 2*e.cfg.Weights.Move, fits && also
}

// canBeMade tries whether moves can be made one after the other: each has room where
// it goes, and counts there, before it has left.
func (w *world) canBeMade(p Problem, to []psg.NodeID, moves ...psg.Placement) bool {
	e := w.afresh()
	for i, q := range moves {
		next := q
		next.Ask.ID += "-next"
		if _, _, ok := put(e, p, next, to[i]); !ok {
			return false
		}
		e.free(q, next)
		if _, _, ok := put(e, p, q, to[i]); !ok {
			return false
		}
	}
	return true
}

// pays reports whether an exchange would be worth its two or three moves, wherever
// b goes.
func (w *world) pays(p Problem, a, b psg.Placement) bool {
	return slices.ContainsFunc(w.rows, func(goal psg.NodeID) bool {
		if goal == b.Node {
			return false
		}
		gain, ok := w.exchangeOf(p, a, b, goal)
		if !ok || gain <= 0 {
			return false
		}
		if w.canBeMade(p, []psg.NodeID{goal, b.Node}, b, a) || w.canBeMade(p, []psg.NodeID{b.Node, goal}, a, b) {
			return true
		}
		return goal == a.Node && gain > w.cfg.Weights.Move && slices.ContainsFunc(w.rows, func(third psg.NodeID) bool {
			return third != a.Node && third != b.Node &&
				(w.canBeMade(p, []psg.NodeID{third, goal, b.Node}, a, b, a) || w.canBeMade(p, []psg.NodeID{third, b.Node, goal}, b, a, b))
		})
	})
}

// paysAlone reports whether a single move would be worth its cost.
func (w *world) paysAlone(p Problem, a psg.Placement) bool {
	e := w.afresh()
	e.free(a)
	_, here, _ := put(e, p, a, a.Node)
	e.free(a)
	return slices.ContainsFunc(w.rows, func(to psg.NodeID) bool {
		_, there, ok := put(e, p, a, to)
		e.free(a)
		return ok && to != a.Node && there-here > e.cfg.Weights.Move && w.canBeMade(p, []psg.NodeID{to}, a)
	})
}

// makeMoves carries moves out, and counts the exchanges among them by the number
// of their moves. Each must gain what the dumb reading says.
func (w *world) makeMoves(t *testing.T, p Problem, m Improvement, exchanges map[int]int) {
	t.Helper()
	for i := 0; i < len(m.Moves); {
		last := i
		for m.Moves[last].Gain == 0 {
			last++
		}
		if chain := m.Moves[i].Chain; chain != m.Moves[last].Chain || i > 0 && chain != m.Moves[i-1].Chain+1 || i == 0 && chain != 1 {
			t.Fatalf("chains of %+v", m.Moves)
		}
		if size := last + 1 - i; size > 1 {
			exchanges[size]++
			one, other := m.Moves[last].Placement, m.Moves[last-1].Placement // where they are in the end
			first, second := w.holding(one), w.holding(other)
			if one.Node != second.Node { // the first to go took the other's room
				first, second, other = second, first, one
			}
			gain, ok := w.exchangeOf(p, first, second, other.Node)
			if want := gain - int64(size-2)*w.cfg.Weights.Move; !ok || w.plain(first) && w.plain(second) && want != m.Moves[last].Gain {
				t.Fatalf("%+v gains %d, not %d", m.Moves[i:last+1], want, m.Moves[last].Gain)
			}
		}
		w.replay(t, p, Improvement{Moves: m.Moves[i : last+1]})
		i = last + 1
	}
}

// holding is what a placement's instance holds now.
func (w *world) holding(p psg.Placement) psg.Placement {
	return w.placements[slices.IndexFunc(w.placements, func(q psg.Placement) bool { return q.Ask.ID == p.Ask.ID })]
}

// mayMove reports whether a placement may move, and is plain.
func (w *world) mayMove(p Problem, q psg.Placement) bool {
	return w.plain(q) && mayMove(w.twin.workloads[q.Ask.Workload], p.Rulings[q.Ask.Workload]) > 0
}

// plain reports whether a pinned placement's score is all there is: it leaves out
// what spreads add.
func (w *world) plain(p psg.Placement) bool {
	return len(w.twin.workloads[p.Ask.Workload].Spreads) == 0
}

// loosen lets most workloads go to any node, and makes none of them very small.
func (w *world) loosen() {
	for _, id := range w.ids() {
		if w.rng.IntN(4) > 0 {
			d := w.twin.workloads[id]
			d.Constraints, d.Datacenters, d.Devices, d.Ports, d.Spreads = nil, nil, nil, nil, nil
			d.Request = psg.Resources{psg.CPU: int64(200 + 100*w.rng.IntN(6)), psg.Memory: int64(100 * w.rng.IntN(8))}
			w.twin.workloads[id] = d
			w.Apply(psg.WorkloadChanged{Workload: d})
		}
	}
}

// divide draws each workload to one zone, whatever it is in now.
func (w *world) divide() {
	for _, id := range w.ids() {
		d := w.twin.workloads[id]
		d.Affinities = []psg.Affinity{{Constraint: psg.Constraint{Left: "${attr.zone}", Operator: psg.Equal, Right: w.pick("a", "b")}, Weight: 100}}
		w.twin.workloads[id] = d
		w.Apply(psg.WorkloadChanged{Workload: d})
	}
}

// thinned is a random cluster that was filled, of whose placements a quarter has ended,
// and the problem of those that are left.
func thinned(t *testing.T, seed uint64) (*world, Problem) {
	t.Helper()
	w := newWorld(seed)
	w.loosen()
	var p Problem
	for range 8 {
		p = w.problem()
		plan := w.Solve(p)
		w.agree(t, p, plan)
		for _, q := range plan.Placements {
			w.Apply(psg.Placed{Placement: q})
		}
	}
	p.Asks = nil
	w.divide()
	for range len(w.placements) / 4 {
		i := w.rng.IntN(len(w.placements))
		w.free(w.placements[i])
		w.placements = slices.Delete(w.placements, i, i+1)
	}
	return w, p
}

// TestImprove_LeavesNoExchangeThatPays tries every pair where a random cluster has
// come to rest.
func TestImprove_LeavesNoExchangeThatPays(t *testing.T) {
	exchanges := map[int]int{}
	for seed := range uint64(52) {
		w, p := thinned(t, 70_000+seed)
		if seed >= 40 {
			w.bind()
		}
		rest := false
		for range 40 {
			m := w.Improve(p, 50)
			if again := w.afresh().Improve(p, 50); mustJSON(t, again) != mustJSON(t, m) {
				t.Fatalf("seed %d: %s\nafresh:\n%s", seed, mustJSON(t, m), mustJSON(t, again))
			}
			if rest = len(m.Moves) == 0; rest {
				break
			}
			w.makeMoves(t, p, m, exchanges)
		}
		if !rest {
			t.Fatalf("seed %d does not come to rest", seed)
		}
		for _, a := range w.placements {
			if w.mayMove(p, a) && w.paysAlone(p, a) {
				t.Fatalf("seed %d: %s on %s could be better off", seed, a.Ask.ID, a.Node)
			}
			for _, b := range w.placements {
				if a.Ask.Workload != b.Ask.Workload && a.Node != b.Node && w.mayMove(p, a) && w.mayMove(p, b) && w.pays(p, a, b) {
					t.Fatalf("seed %d: %s on %s could take the room of %s on %s", seed, a.Ask.ID, a.Node, b.Ask.ID, b.Node)
				}
			}
		}
	}
	if exchanges[2] < 10 || exchanges[3] < 1 {
		t.Errorf("exchanges by moves %v: the test shows little", exchanges)
	}
}
