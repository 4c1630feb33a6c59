package placement

import (
	"cmp"
	"slices"

	"github.com/psgrid/psg"
)

// Improvement is a sequence of moves, and what becomes possible by them.
type Improvement struct {
	// Moves are to be carried out one after the other: each destination has room
	// while the source still runs, and counts as one more wherever instances are
	// counted in all of the cluster, once the moves before it are done.
	Moves []Move
	// Placements are of the problem's asks that have room once all moves are
	// done, in the order of the asks.
	Placements []psg.Placement
}

// Move is one placement that goes to another node.
type Move struct {
	From      psg.NodeID
	Placement psg.Placement // the destination: same ask, new node and devices, state Moving
	// Gain is what the cluster gains, in milli-points, move cost deducted. Of moves
	// that pay only together, which follow each other, it stands with the last, and
	// is 0 with the others. Of such an exchange one placement may move twice.
	Gain int64
	For  psg.RequestID // the ask that this makes room for; else empty
	// Chain numbers, from 1, what is worth doing as a whole only: a move that pays by
	// itself, an exchange, or all that makes room for one ask. Moves of a chain follow
	// each other.
	Chain int
}

// Improve looks for moves, at most so many: first those that make room for
// asks that have none, in the order of their turns, then those that are worth
// their cost by the scores, and where no single move is, exchanges: one placement
// takes the room of another, which goes elsewhere before or changes places with it.
// It stops where none pays, so that a cluster left alone comes to rest. Of each
// workload no more instances move in one call than its Disruption or Migrate block
// allows at once (one without). Protected workloads, system workloads, what is only
// reserved or on its way, and what is in Problem.Stay stay. Problem.Stop ends the
// search early; what was found so far is returned. Problem.Seed says where it begins,
// which matters where it can't look at everything. The engine is left as it was.
func (e *Engine) Improve(p Problem, moves int) Improvement {
	return e.improve(p, moves, true)
}

// MakeRoom is Improve without the moves that are for nobody's sake.
func (e *Engine) MakeRoom(p Problem, moves int) Improvement {
	return e.improve(p, moves, false)
}

func (e *Engine) improve(p Problem, moves int, rebalance bool) Improvement {
	s := e.newSolver(p)
	m := newMover(s, moves)
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
	m.takeBack(progress{})
	return improvement
}

// mover is the scratch of one Improve.
type mover struct {
	*solver
	left   int // moves
	moves  []Move
	chain  int                    // that moves are of now
	moving map[*workload]int      // instances on the move
	fixed  map[psg.RequestID]bool // moved or placed in this call

	loads   map[psg.RequestID]load // of what has moved
	shifted map[*node]load         // that has come to nodes, less what has left
	hauls   []haul                 // in their order
}

func newMover(s *solver, moves int) *mover {
	return &mover{
		solver: s, left: moves, moving: make(map[*workload]int), fixed: make(map[psg.RequestID]bool),
		loads: make(map[psg.RequestID]load), shifted: make(map[*node]load),
	}
}

// movable reports whether a placement may be moved now.
func (m *mover) movable(h *held) bool {
	w := h.workload
	return m.e.settled(h) && m.moving[w] < atOnce(&w.spec) && !m.fixed[h.placement.Ask.ID] &&
		!m.p.Stay[h.placement.Ask.ID] && w.spec.Gang == "" &&
		w.spec.Managed() && !m.protected(w) && !m.awaited(w)
}

// awaited reports whether a workload's instances may be where they are only for the
// sake of one that has a place now: it has not in time for a move.
func (m *mover) awaited(w *workload) bool {
	return w.spec.MinDomains > 1 && slices.ContainsFunc(w.held, func(h *held) bool { return h.planned })
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

// rebalance makes the moves that gain most, pass by pass, and where none does by
// itself those that do together. What was found when the budget was spent is
// still made.
func (m *mover) rebalance() {
	for m.left > 0 {
		offers, wants := m.look()
		late := m.spent()
		if late {
			offers = offers[:min(len(offers), m.left)]
		}
		if made := m.accept(offers); late || !made && !m.exchange(wants) {
			return
		}
	}
}

// accept makes moves, and reports whether it did. Each is tried again before it is
// made, because the ones before it may have taken its point.
func (m *mover) accept(offers []offer) bool {
	made := false
	for _, o := range offers {
		if m.left == 0 {
			break
		}
		if !m.movable(o.held) {
			continue
		}
		now := m.try(o.held)
		if now.gain <= 0 {
			continue
		}
		made = m.moveAll(now.gain, "", step{now.held.placement.Ask.ID, m.e.slots[now.to.slot]}) || made
	}
	return made
}

// offer is one possible move.
type offer struct {
	held *held
	to   candidate
	here int64 // points that it has where it is
	gain int64 // what the move does; none is worth making at 0
}

// look lists the moves that gain, the best first, and what would stay. One instance
// of a workload is tried for all of them on a node: they are alike. The seed says
// where it begins, so that calls that end early look at others.
func (m *mover) look() (offers []offer, wants []want) {
	nodes := m.e.byRank()
	for i := range nodes {
		if m.spent() {
			break
		}
		n := nodes[(uint64(i)+m.p.Seed%uint64(len(nodes)))%uint64(len(nodes))]
		tried := make(map[*workload]bool)
		for _, h := range m.movables(n) {
			if tried[h.workload] || m.spent() {
				continue
			}
			tried[h.workload] = true
			if o := m.try(h); o.gain > 0 {
				offers = append(offers, o)
			} else {
				wants = append(wants, want{held: h, here: o.here})
			}
		}
	}
	slices.SortFunc(offers, func(a, b offer) int { return cmp.Or(cmp.Compare(b.gain, a.gain), byID(a.held, b.held)) })
	return offers, wants
}

// try asks where a placement would go if it were placed now, its own room being
// free but not left yet, and what that would gain.
func (m *mover) try(h *held) offer {
	c, from := m.classFor(h.workload), h.node
	mark := len(m.journal)
	m.strike(h)
	to, ok := m.e.bestBeside(c, from)
	o := offer{held: h, to: to, here: m.worth(h, from)}
	m.undo(mark)
	if ok && to.slot != from.slot {
		o.gain = to.parts.total() - m.e.cfg.Weights.Move - o.here
	}
	return o
}

// rated is fitsBeside with what the spreads add.
func (m *mover) rated(c *class, slot int32, leaving *node) (candidate, bool) {
	found, fits := m.e.fitsBeside(c, slot, leaving)
	if fits && c.shape.counts() {
		found.parts[partSpread] = m.e.spreadAt(c, slot)
	}
	return found, fits
}
