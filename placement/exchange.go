package placement

import (
	"cmp"
	"slices"
)

// Where no single move pays, two can: a placement goes where it is better off, and
// one that is in its way there goes elsewhere before, or takes its place.

const (
	// mostGoals is how many nodes are looked at for one placement that would be
	// better off, and mostRivals how many placements there may be in its way.
	mostGoals  = 16
	mostRivals = 64
	// mostSpares is how many nodes are tried for a placement to wait on.
	mostSpares = 16
	// mostExchanges is how many pairs of placements one call tries.
	mostExchanges = 1 << 12
)

// want is a placement that could be better off.
type want struct {
	held  *held
	here  int64 // points where it is
	lacks int64 // points that it could have more, at most
}

// goal is a node that a class would like best if there was room.
type goal struct {
	slot  int32
	bound int64 // no score there is above
}

// exchange is a placement that goes to another's node, and what becomes of that.
type exchange struct {
	held, rival *held
	goal        *node // of the rival
	gain        int64 // of two moves
}

// exchanger is the scratch of one round of exchanges.
type exchanger struct {
	*mover
	goals map[*class][]goal
	pairs int // yet to be tried
}

// exchange makes the exchanges that pay, those first who could gain most, and
// reports whether there was one.
func (m *mover) exchange(wants []want) bool {
	x := &exchanger{mover: m, goals: make(map[*class][]goal), pairs: mostExchanges}
	made := false
	for _, w := range x.keenest(wants) {
		if m.left < 2 || x.pairs <= 0 || m.spent() {
			break
		}
		if m.movable(w.held) && x.satisfy(&w) {
			made = true
		}
	}
	return made
}

// keenest are those of the wants who could gain more than a move costs, in order:
// of two who pay for two moves together one is such.
func (x *exchanger) keenest(wants []want) []want {
	var list []want
	for _, w := range wants {
		if x.spent() {
			return nil
		}
		c := x.classFor(w.held.workload)
		for _, g := range x.goalsOf(c) {
			if g.slot != w.held.node.slot {
				w.lacks = max(w.lacks, g.bound-w.here)
			}
		}
		if w.lacks > x.e.cfg.Weights.Move {
			list = append(list, w)
		}
	}
	slices.SortFunc(list, func(a, b want) int { return cmp.Or(cmp.Compare(b.lacks, a.lacks), byID(a.held, b.held)) })
	return list
}

// goalsOf are the nodes that a class would like best, were there room. Of equal
// ones the seed says which come first, so that calls that follow each other look
// at others.
func (x *exchanger) goalsOf(c *class) []goal {
	if list, known := x.goals[c]; known {
		return list
	}
	list := make([]goal, 0, mostGoals+1)
	order := func(a, b goal) int {
		return cmp.Or(cmp.Compare(b.bound, a.bound), cmp.Compare(x.turn(a.slot), x.turn(b.slot)))
	}
	for slot, n := range x.e.slots {
		if n == nil || !x.suits(c, n) {
			continue
		}
		next := goal{int32(slot), x.bound(c, int32(slot))}
		if at, _ := slices.BinarySearchFunc(list, next, order); at < mostGoals {
			list = slices.Insert(list, at, next)
			list = list[:min(len(list), mostGoals)]
		}
	}
	x.goals[c] = list
	return list
}

// turn is a slot's place in the order of nodes that begins at the seed.
func (x *exchanger) turn(slot int32) uint64 {
	nodes := uint64(len(x.e.nodes))
	return (uint64(x.e.ranks[slot]) + nodes - x.p.Seed%nodes) % nodes
}

// bound is the most that a class could score on a node. What spreads add there
// changes with what leaves: one instance fewer counts for one step at most.
func (x *exchanger) bound(c *class, slot int32) int64 {
	most := x.e.ceiling(c, slot)
	if c.shape.counts() {
		most += x.e.spreadAt(c, slot) + x.e.cfg.Weights.Spread
	}
	return most
}

// satisfy makes the exchange for one placement that gains most, of those that can
// be carried out.
func (x *exchanger) satisfy(w *want) bool {
	var list []exchange
	rivals := mostRivals
	for _, g := range x.goalsOf(x.classFor(w.held.workload)) {
		to := x.e.slots[g.slot]
		if to == w.held.node || g.bound-w.here <= x.e.cfg.Weights.Move {
			continue
		}
		for _, rival := range x.movables(to) {
			if rivals == 0 || x.pairs == 0 || x.spent() {
				break
			}
			rivals--
			x.pairs--
			list = append(list, x.weigh(w, rival)...)
		}
	}
	slices.SortStableFunc(list, func(a, b exchange) int {
		return cmp.Or(cmp.Compare(b.gain, a.gain), byID(a.rival, b.rival))
	})
	return slices.ContainsFunc(list, func(next exchange) bool { return x.carry(&next) })
}

// weigh says what it would gain that a placement takes a rival's room, and the
// rival takes its place, or goes where else it is best off then; nothing where
// neither pays. Two of one workload are alike.
func (x *exchanger) weigh(w *want, rival *held) (list []exchange) {
	if rival.workload == w.held.workload {
		return nil
	}
	c, rc, from, to := x.classFor(w.held.workload), x.classFor(rival.workload), w.held.node, rival.node
	if _, fits := x.fitsWithout(c, to, w.held, rival); !fits {
		return nil
	}
	mark := x.mark()
	defer x.takeBack(mark)
	x.strike(w.held)
	x.strike(rival)
	here, rivalThere := x.worth(w.held, from), x.worth(rival, to)
	x.shift(to, x.shifted[to].less(x.carries(rival, to)))
	there, fits := x.rated(c, to.slot, nil)
	gain := there.parts.total() - here - x.e.cfg.Weights.Move
	if !fits || gain <= 0 {
		return nil
	}
	gain -= rivalThere + x.e.cfg.Weights.Move
	x.move(w.held, from, there, 0, "")
	if found, fits := x.rated(rc, from.slot, nil); fits && gain+found.parts.total() > 0 {
		list = append(list, exchange{w.held, rival, from, gain + found.parts.total()})
	}
	found, ok := x.elsewhere(rc, to, w.held, from)
	if ok && found.slot != to.slot && found.slot != from.slot && gain+found.parts.total() > 0 {
		list = append(list, exchange{w.held, rival, x.e.slots[found.slot], gain + found.parts.total()})
	}
	return list
}

// elsewhere is where one of a class that leaves a node is best off while another
// placement is on the node it came from as well; but that counts once.
func (x *exchanger) elsewhere(c *class, leaves *node, other *held, from *node) (candidate, bool) {
	x.e.book(other, from)
	for _, i := range other.workload.limits {
		x.e.limitTotals[i]--
	}
	found, ok := x.e.bestBeside(c, leaves)
	for _, i := range other.workload.limits {
		x.e.limitTotals[i]++
	}
	x.e.strike(other)
	return found, ok
}

// carry carries an exchange out in the order in which each has room, if there is
// one. Two who change places both need room beside the other, or one of them goes
// to a third node before, if that pays still.
func (x *exchanger) carry(next *exchange) bool {
	a, b := next.held.placement.Ask.ID, next.rival.placement.Ask.ID
	from, to := next.held.node, next.rival.node
	away, there := step{b, next.goal}, step{a, to}
	if x.moveAll(next.gain, "", away, there) {
		return true
	}
	if next.goal != from {
		return false
	}
	if x.moveAll(next.gain, "", there, away) {
		return true
	}
	gain := next.gain - x.e.cfg.Weights.Move
	if x.left < 3 || gain <= 0 {
		return false
	}
	return slices.ContainsFunc(x.spares(next.held, to), func(n *node) bool {
		return x.moveAll(gain, "", step{a, n}, away, there)
	}) || slices.ContainsFunc(x.spares(next.rival, from), func(n *node) bool {
		return x.moveAll(gain, "", step{b, n}, there, away)
	})
}

// spares are nodes, other than its own and one more, that have room for a placement
// as things stand.
func (x *exchanger) spares(h *held, not *node) []*node {
	c, from := x.classFor(h.workload), h.node
	mark := x.mark()
	defer x.takeBack(mark)
	x.strike(h)
	var list []*node
	for _, n := range x.e.byRank() {
		if len(list) == mostSpares || x.spent() {
			break
		}
		if n == from || n == not {
			continue
		}
		if _, fits := x.rated(c, n.slot, from); fits {
			list = append(list, n)
		}
	}
	return list
}
