package placement

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/psgrid/psg"
)

// Preemption is which placements must end for an ask or its gang to fit, and
// where they go then.
type Preemption struct {
	Placements []psg.Placement // once the victims are gone: of the ask, or of each of its gang
	Victims    []psg.Placement // by ID; none for what fits as it is
}

// Sacrifice is what Preempt may do for one ask, or for the gang that it is of.
type Sacrifice struct {
	Ask  psg.Ask
	Gang []psg.Ask  // of a gang: all its asks that wait
	Node psg.NodeID // where the room is to be made; empty means anywhere
	Most int        // victims; 0 means any number
}

// Preempt finds room for an ask at the expense of placements of lower priority
// that are preemptible and not protected, or says why there is none. The victims
// are the fewest that suffice on any node; among as many those whose highest
// priority is the lowest, then the sum, then those on the node where the
// orchestrator has put the ask, then on the best node. Whatever the ask needs
// becomes free: a victim that frees only something else is not chosen. Since a
// victim's priority is always below the preemptor's, preemptions can't go in
// circles. A placement that makes way for another already is no victim, nor is
// one that waits for others itself. What runs on every node gets room on the one
// that its ask is for.
//
// Sets are tried exhaustively up to a bound on each node; beyond it the set is
// one of which no part would do. A gang is helped as a whole or not at all: see
// preemptGang.
func (e *Engine) Preempt(p Problem, want Sacrifice) (Preemption, *psg.Refusal) {
	switch w, known := e.workloads[want.Ask.Workload]; {
	case known && w.spec.Gang != "":
		return e.preemptGang(p, want, w.spec.Gang)
	case known && w.spec.Type.EveryNode() && want.Ask.Node != "":
		want.Node = cmp.Or(want.Node, want.Ask.Node)
		if want.Node != want.Ask.Node {
			return Preemption{}, refusal(want.Ask.ID, "preemption", fmt.Sprintf("it is for node %s: room on %s is of no use to it", want.Ask.Node, want.Node))
		}
	}
	ask := want.Ask
	ask.Node = want.Node
	p.Asks = []psg.Ask{ask}
	s := e.newSolver(p)
	defer s.undo(0)
	w, c := s.admit(0)
	switch a := &s.answers[0]; {
	case c == nil && a.placement != nil:
		return Preemption{Placements: []psg.Placement{*a.placement}}, nil
	case c == nil:
		return Preemption{}, a.refusal
	case s.place(0, w, c):
		return s.placedFor(want.Ask, nil), nil
	}
	best, ok := s.cheapestVictims(want, w, c)
	if !ok {
		return Preemption{}, refusal(ask.ID, "preemption", s.unhelped(want))
	}
	if most := want.Most; most > 0 && len(best.victims) > most {
		return Preemption{}, refusal(ask.ID, "preemption", fmt.Sprintf("it takes %d victims, on %s, and at most %d are allowed", len(best.victims), e.slots[best.at.slot].name(), most))
	}
	for _, v := range best.victims {
		s.strike(v)
	}
	s.grant(0, c, best.at, nil)
	return s.placedFor(want.Ask, best.victims), nil
}

// placedFor is where the one ask of the problem is now, as it was asked.
func (s *solver) placedFor(ask psg.Ask, victims []*held) Preemption {
	placed := *s.answers[0].placement
	placed.Ask = ask
	return Preemption{[]psg.Placement{placed}, placementsOf(victims)}
}

func placementsOf(victims []*held) []psg.Placement {
	list := make([]psg.Placement, len(victims))
	for i, v := range victims {
		list[i] = v.placement
	}
	return list
}

func refusal(ask psg.RequestID, source, text string) *psg.Refusal {
	var a answer
	a.refuse(&psg.Ask{ID: ask}, psg.Queued, psg.Reason{Source: source, Text: text})
	return a.refusal
}

func (s *solver) unhelped(want Sacrifice) string {
	switch _, known := s.e.nodes[want.Node]; {
	case s.spent():
		return "no victims were found in the time there was"
	case want.Node == "":
		return "on no node would it fit, whatever of lower priority that is preemptible and not protected ended there"
	case !known:
		return fmt.Sprintf("node %s is not known", want.Node)
	}
	return fmt.Sprintf("it would not fit %s, whatever of lower priority that is preemptible and not protected ended there", s.e.nodes[want.Node].name())
}

// sacrifice is one node's set of victims.
type sacrifice struct {
	victims []*held
	highest int // priority among them
	sum     int // of their priorities
	away    int // 0 on the node where the ask is already, else 1
	at      candidate
}

func (s *solver) cheapestVictims(want Sacrifice, w *workload, c *class) (best sacrifice, ok bool) {
	for _, n := range s.e.slots {
		if n == nil || want.Node != "" && want.Node != n.spec.ID || s.spent() {
			continue
		}
		most := len(n.held)
		if ok {
			most = len(best.victims)
		}
		next, found := s.offer(w, c, n, most)
		if !found {
			continue
		}
		if n.spec.ID != want.Ask.Node {
			next.away = 1
		}
		if !ok || s.e.cheaper(&next, &best) {
			best, ok = next, true
		}
	}
	return best, ok
}

// offer is what a node asks for a place: the cheapest set, of so many at most.
func (s *solver) offer(w *workload, c *class, n *node, most int) (sacrifice, bool) {
	next, found := s.fewest(c, n, s.lesser(n, w), most)
	if found {
		slices.SortFunc(next.victims, byID)
		next.at, _ = s.fitsWithout(c, n, next.victims...)
	}
	return next, found
}

func (e *Engine) cheaper(a, b *sacrifice) bool {
	return cmp.Or(
		cmp.Compare(len(a.victims), len(b.victims)), cmp.Compare(a.highest, b.highest), cmp.Compare(a.sum, b.sum),
		cmp.Compare(a.away, b.away),
		cmp.Compare(b.at.parts.total(), a.at.parts.total()), cmp.Compare(e.ranks[a.at.slot], e.ranks[b.at.slot]),
	) < 0
}

// lesser lists a node's placements that a workload may preempt, the lowest in
// priority first.
func (s *solver) lesser(n *node, w *workload) []*held {
	var list []*held
	for _, h := range n.held {
		if s.mayEnd(h, w) {
			list = append(list, h)
		}
	}
	slices.SortFunc(list, byPriority)
	return list
}

// mayEnd reports whether a placement may be made to end for a workload. None of a
// gang does for another of it: without either the rest would be of no use.
func (s *solver) mayEnd(h *held, w *workload) bool {
	v := h.workload
	if v.spec.Gang != "" && v.spec.Gang == w.spec.Gang {
		return false
	}
	return s.e.settled(h) && v.spec.Preemptible && v.spec.Priority < w.spec.Priority && v.spec.Managed() && !s.protected(v)
}

func byPriority(a, b *held) int {
	return cmp.Or(cmp.Compare(a.workload.spec.Priority, b.workload.spec.Priority), byID(a, b))
}
