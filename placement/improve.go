package placement

import (
	"cmp"
	"slices"

	"github.com/psgrid/psg"
)

// Improvement is a sequence of moves, and what becomes possible by them.
type Improvement struct {
	// Moves are to be carried out one after the other: each destination has
	// room while the source still runs, once the moves before it are done.
	Moves []Move
	// Placements are of the problem's asks that have room once all moves are
	// done, in the order of the asks.
	Placements []psg.Placement
}

// Move is one placement that goes to another node.
type Move struct {
	From      psg.NodeID
	Placement psg.Placement // the destination: same ask, new node and devices, state Moving
	Gain      int64         // milli-points that the cluster gains, move cost deducted
	For       psg.RequestID // the ask that this makes room for; empty for a move that pays by itself
}

// Improve looks for moves, at most so many: first those that make room for
// asks that have none, in the order of their turns, then those that are worth
// their cost by the scores: it stops when no single move is, so that a cluster
// left alone comes to rest. Of each workload no more instances move in one call
// than its Disruption or Migrate block allows at once (one without). Protected workloads,
// system workloads and what is not yet running stay. Problem.Stop ends the
// search early; what was found so far is returned. The engine is left as it was.
func (e *Engine) Improve(p Problem, moves int) Improvement {
	return e.improve(p, moves, true)
}

// MakeRoom is Improve without the moves that are for nobody's sake.
func (e *Engine) MakeRoom(p Problem, moves int) Improvement {
	return e.improve(p, moves, false)
}

func (e *Engine) improve(p Problem, moves int, rebalance bool) Improvement {
	s := e.newSolver(p)
	m := &mover{solver: s, left: moves, moving: make(map[*workload]int), fixed: make(map[psg.RequestID]bool)}
	for _, at := range s.queue {
		if s.spent() {
			break
		}
		m.unblock(at)
	}
	if rebalance {
		m.rebalance()
	}
	improvement := Improvement{Moves: m.moves, Placements: s.plan().Placements}
	s.undo(0)
	return improvement
}

// mover is the scratch of one Improve.
type mover struct {
	*solver
	left   int // moves
	moves  []Move
	moving map[*workload]int      // instances on the move
	fixed  map[psg.RequestID]bool // moved or placed in this call
}

// movable reports whether a placement may be moved now.
func (m *mover) movable(h *held) bool {
	w := h.workload
	return m.e.settled(h) && m.moving[w] < atOnce(&w.spec) && !m.fixed[h.placement.Ask.ID] && w.spec.Gang == "" &&
		w.spec.Managed() && !m.protected(w)
}

// atOnce is how many instances of a workload may be on the move: as many as may
// be down, or one where none may be but another is started first.
func atOnce(w *psg.Workload) int {
	switch {
	case w.Disruption != nil && w.Disruption.MaxUnavailable > 0:
		return w.Disruption.MaxUnavailable
	case w.Disruption != nil && w.Disruption.Order == psg.StopFirst:
		return 0
	case w.Disruption == nil && w.Migrate != nil:
		return max(1, w.Migrate.MaxParallel)
	}
	return 1
}

// movables lists a node's placements that may be moved, by ID.
func (m *mover) movables(n *node) []*held {
	var list []*held
	for _, h := range n.held {
		if m.movable(h) {
			list = append(list, h)
		}
	}
	slices.SortFunc(list, byID)
	return list
}

// classFor is the class of a placement's workload under the problem's rulings.
func (m *mover) classFor(w *workload) *class {
	if w.cycle != m.e.cycle {
		m.e.classUnder(w, m.p.Rulings[w.id])
		w.cycle = m.e.cycle
	}
	return w.class
}

// move carries a placement over to a candidate node, for the rest of the
// search. The room of what it held must have been struck before.
func (m *mover) move(h *held, from *node, to candidate, gain int64, ask psg.RequestID) {
	p := h.placement
	c, n := m.classFor(h.workload), m.e.slots[to.slot]
	p.Node, p.State, p.Since = n.spec.ID, psg.Moving, m.p.Now
	p.Devices, p.Ports, p.Score = m.e.hand(c.shape, n), c.shape.ports.shares(&n.spec), to.parts.appendTo(nil)
	next := &held{placement: p, workload: h.workload}
	m.e.book(next, n)
	m.journal = append(m.journal, entry{held: next})
	m.moves = append(m.moves, Move{From: from.spec.ID, Placement: p, Gain: gain, For: ask})
	m.fixed[p.Ask.ID] = true
	m.moving[h.workload]++
	m.left--
}

// rebalance makes the moves that gain most, pass by pass. Each is tried again
// before it is made, because the ones before it may have taken its point.
func (m *mover) rebalance() {
	for m.left > 0 {
		made := false
		for _, o := range m.offers() {
			if m.left == 0 || m.spent() {
				return
			}
			now, gains := m.try(o.held)
			if !gains || !m.movable(o.held) {
				continue
			}
			from := now.held.node
			m.strike(now.held)
			m.move(now.held, from, now.to, now.gain, "")
			made = true
		}
		if !made {
			return
		}
	}
}

// offer is one possible move.
type offer struct {
	held *held
	to   candidate
	gain int64
}

// offers lists the moves that gain, the best first. One instance of a workload
// is tried for all of them on a node: they are alike.
func (m *mover) offers() []offer {
	var list []offer
	for _, n := range m.e.slots {
		if n == nil {
			continue
		}
		tried := make(map[*workload]bool)
		for _, h := range m.movables(n) {
			if tried[h.workload] || m.spent() {
				continue
			}
			tried[h.workload] = true
			if next, gains := m.try(h); gains {
				list = append(list, next)
			}
		}
	}
	slices.SortFunc(list, func(a, b offer) int { return cmp.Or(cmp.Compare(b.gain, a.gain), byID(a.held, b.held)) })
	return list
}

// try asks where a placement would go if it were placed now, its own room
// being free, and what that would gain.
func (m *mover) try(h *held) (offer, bool) {
	c, from := m.classFor(h.workload), h.node.slot
	mark := len(m.journal)
	m.strike(h)
	to, ok := m.e.best(c)
	here, stays := m.e.fitsAt(c, from)
	if stays && c.shape.counts() {
		here.parts[partSpread] = m.e.spreadAt(c, from)
	}
	m.undo(mark)
	if !ok || to.slot == from {
		return offer{}, false
	}
	gain := to.parts.total() - m.e.cfg.Weights.Move
	if stays {
		gain -= here.parts.total()
	}
	return offer{h, to, gain}, gain > 0
}
