package placement

import "cmp"

// mostTries is how many ways to make room for one ask are followed to the end.
const mostTries = 256

// unblock answers one ask: with room that is there, else with room that one
// node's placements can make by moving away, in as few moves as possible. Whoever
// waits on a node, in a gang or for a reservation is left to Solve.
func (m *mover) unblock(at int) {
	ask := &m.p.Asks[at]
	m.fixed[ask.ID] = true
	w, c := m.admit(at)
	if c == nil || w.spec.Gang != "" || ask.Node != "" || len(m.reservations(ask, w)) > 0 {
		return
	}
	if m.place(at, w, c); m.answers[at].placement != nil {
		return
	}
	for size := 1; size <= min(mostVictims, m.left); size++ {
		if way, ok := m.bestWay(at, c, size); ok {
			m.answers[at] = answer{}
			m.perform(at, c, &way)
			return
		}
	}
}

// way is how a node can make room for an ask.
type way struct {
	node    *node
	victims []*held
	points  int64 // of the ask there and of the victims where they go, less what they had
}

// bestWay compares the ways in which any node can make room by moving so many
// of its placements. Nodes come by ID, so that which are tried is not a matter of
// where in the book they stand.
func (m *mover) bestWay(at int, c *class, size int) (best way, ok bool) {
	tries := 0
	for _, n := range m.e.byRank() {
		if !m.suits(c, n) || m.spent() {
			continue
		}
		for _, victims := range m.sets(c, n, size) {
			if tries++; tries > mostTries {
				return best, ok
			}
			next := way{node: n, victims: victims}
			if m.rehearse(at, c, &next) && (!ok || m.betterWay(&next, &best)) {
				best, ok = next, true
			}
		}
	}
	return best, ok
}

func (m *mover) betterWay(a, b *way) bool {
	return cmp.Or(cmp.Compare(b.points, a.points), cmp.Compare(a.node.spec.ID, b.node.spec.ID), byID(a.victims[0], b.victims[0])) < 0
}

// sets lists the sets of one size that would make room on a node. One instance
// of a workload stands for all of them there.
func (m *mover) sets(c *class, n *node, size int) [][]*held {
	var may []*held
	seen := make(map[*workload]int)
	for _, h := range m.movables(n) {
		w := h.workload
		if seen[w] < min(size, atOnce(&w.spec)-m.moving[w]) && m.hasRoom(w) {
			seen[w]++
			may = append(may, h)
		}
	}
	var list [][]*held
	if size == 1 {
		for _, h := range may {
			if _, ok := m.fitsWithout(c, n, h); ok {
				list = append(list, []*held{h})
			}
		}
		return list
	}
	if set := m.smallest(c, n, may); len(set) == size {
		list = append(list, set)
	}
	return list
}

// hasRoom reports whether any node has room for one more of a workload, as
// things stand.
func (m *mover) hasRoom(w *workload) bool {
	_, ok := m.e.best(m.classFor(w))
	return ok
}

// rehearse carries a way out, and takes it all back.
func (m *mover) rehearse(at int, c *class, w *way) bool {
	mark, answer := m.mark(), m.answers[at]
	ok := m.perform(at, c, w)
	m.answers[at] = answer
	m.takeBack(mark)
	return ok
}

// perform moves the victims where they are best off, and puts the ask in their
// place; or does nothing.
func (m *mover) perform(at int, c *class, w *way) bool {
	mark := m.mark()
	steps, ok := m.goals(at, c, w)
	if !ok || !m.moveAll(0, m.p.Asks[at].ID, steps...) {
		return false
	}
	found, ok := m.e.fitsAt(c, w.node.slot)
	if !ok {
		m.takeBack(mark)
		return false
	}
	m.grant(at, c, found, nil)
	return true
}

// goals are where the victims are best off once the ask is in their place. Since
// they are a smallest set, none of them fits beside the ask any more.
func (m *mover) goals(at int, c *class, w *way) (steps []step, ok bool) {
	mark := m.mark()
	defer func() {
		m.takeBack(mark)
		m.answers[at] = answer{}
	}()
	w.points = 0
	for _, h := range w.victims {
		m.strike(h)
		w.points -= m.worth(h, w.node)
	}
	found, ok := m.e.fitsAt(c, w.node.slot)
	if !ok {
		return nil, false
	}
	w.points += found.parts.total()
	m.grant(at, c, found, nil)
	for _, h := range w.victims {
		to, ok := m.e.bestBeside(m.classFor(h.workload), w.node)
		if !ok || to.slot == w.node.slot {
			return nil, false
		}
		w.points += to.parts.total() - m.e.cfg.Weights.Move
		m.move(h, w.node, to, 0, "")
		steps = append(steps, step{h.placement.Ask.ID, m.e.slots[to.slot]})
	}
	return steps, true
}
