package placement

import "github.com/psgrid/psg"

// step is one move of a chain.
type step struct {
	ask psg.RequestID
	to  *node
}

// moveAll makes moves one after the other, each with room where it goes while it
// is still where it was, or none. What they gain together stands with the last.
func (m *mover) moveAll(gain int64, forWhom psg.RequestID, steps ...step) bool {
	mark := m.mark()
	m.begin()
	for i, s := range steps {
		h := m.e.held[s.ask]
		from := h.node
		m.strike(h)
		found, fits := m.rated(m.classFor(h.workload), s.to.slot, from)
		if !fits {
			m.takeBack(mark)
			return false
		}
		if i < len(steps)-1 {
			m.move(h, from, found, 0, forWhom)
		} else {
			m.move(h, from, found, gain, forWhom)
		}
	}
	return true
}

// begin opens a new chain, to which the moves that follow belong.
func (m *mover) begin() {
	m.chain = 1
	if last := len(m.moves) - 1; last >= 0 {
		m.chain = m.moves[last].Chain + 1
	}
}

// move carries a placement over to a candidate node, for the rest of the
// search. The room of what it held must have been struck before. Another starts in
// its place, with what the workload asks for, whatever this one was resized to.
func (m *mover) move(h *held, from *node, to candidate, gain int64, ask psg.RequestID) {
	p := h.placement
	c, n := m.classFor(h.workload), m.e.slots[to.slot]
	p.Node, p.State, p.Since, p.Request = n.spec.ID, psg.Moving, m.p.Now, c.shape.request
	p.Devices, p.Ports, p.Score = m.e.hand(c.shape, n), c.shape.ports.shares(&n.spec), to.parts.appendTo(nil)
	next := &held{placement: p, workload: h.workload}
	m.haul(h, from, n)
	m.e.book(next, n)
	m.journal = append(m.journal, entry{held: next})
	m.moves = append(m.moves, Move{From: from.spec.ID, Placement: p, Gain: gain, For: ask, Chain: m.chain})
	if !m.fixed[p.Ask.ID] {
		m.fixed[p.Ask.ID] = true
		m.moving[h.workload]++
	}
	m.left--
}

// progress is how far a mover has come.
type progress struct{ journal, moves, left, hauls int }

func (m *mover) mark() progress {
	return progress{len(m.journal), len(m.moves), m.left, len(m.hauls)}
}

// takeBack undoes what was done since a mark.
func (m *mover) takeBack(to progress) {
	for _, done := range m.moves[to.moves:] {
		if id := done.Placement.Ask.ID; m.fixed[id] {
			delete(m.fixed, id)
			delete(m.loads, id)
			m.moving[m.e.workloads[done.Placement.Ask.Workload]]--
		}
	}
	m.moves, m.left = m.moves[:to.moves], to.left
	m.undo(to.journal)
	m.haulBack(to.hauls)
}
