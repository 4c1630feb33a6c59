package placement

import "github.com/psgrid/psg"

// Rehearse makes moves that Improve has found, one after the other, on the cluster as
// it is now, which may have changed since. It says how many of them can be made, up to
// the first that cannot, and, where all can, what the cluster gains: what those who
// move score where they come to in the end, less what they score now and what the
// moves cost. For a chain around which nothing has changed that is what Improve says.
// A placement may move more than once. The engine is left as it was.
func (e *Engine) Rehearse(p Problem, moves []Move) (made int, gain int64) {
	s := e.newSolver(p)
	m := newMover(s, 0)
	defer m.takeBack(progress{})
	before := m.standing(moves)
	for i := range moves {
		if !m.repeat(&moves[i]) {
			return i, 0
		}
	}
	return len(moves), m.standing(moves) - before - int64(len(moves))*e.cfg.Weights.Move
}

// repeat makes a move that was found before, if it can still be made.
func (m *mover) repeat(move *Move) bool {
	h, to := m.e.held[move.Placement.Ask.ID], m.e.nodes[move.Placement.Node]
	if h == nil || to == nil || h.node == nil || h.node == to || h.node.spec.ID != move.From {
		return false
	}
	if !m.fixed[move.Placement.Ask.ID] && !m.movable(h) {
		return false
	}
	from := h.node
	m.strike(h)
	found, fits := m.rated(m.classFor(h.workload), to.slot, from)
	if fits {
		m.move(h, from, found, 0, "")
	}
	return fits
}

// standing is what those who move score where they are, each beside the others.
func (m *mover) standing(moves []Move) (points int64) {
	seen := make(map[psg.RequestID]bool, len(moves))
	for i := range moves {
		id := moves[i].Placement.Ask.ID
		h := m.e.held[id]
		if seen[id] || h == nil || h.node == nil {
			continue
		}
		seen[id] = true
		mark, on := len(m.journal), h.node
		m.strike(h)
		points += m.worth(h, on)
		m.undo(mark)
	}
	return points
}
