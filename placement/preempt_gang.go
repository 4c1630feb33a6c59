package placement

import (
	"fmt"
	"slices"

	"github.com/psgrid/psg"
)

// preemptGang is Preempt for all asks of a gang that wait: with the victims gone
// each of them has a place, or there are none. The victims are the fewest of all
// nodes together that do, then as for one ask; each has a lower priority than
// any of the gang. As in Solve the members are placed in turn.
//
// Sets are tried exhaustively up to a bound, smaller ones than those found when
// each member in turn takes what costs least where it is; beyond it the set is
// one of which no part would do, or, where the time is up before that is known, of
// which none could stay where the gang goes.
//
// A member whose workload has reserved room is to use that and is not among the
// placements.
func (e *Engine) preemptGang(p Problem, want Sacrifice, gang psg.GangID) (Preemption, *psg.Refusal) {
	p.Asks = want.Gang
	s := e.newSolver(p)
	defer s.undo(0)
	g := &gangRoom{solver: s, want: want}
	for _, at := range s.gangs[gang] {
		if !s.answers[at].skipped {
			if _, c := s.admit(at); c != nil {
				g.asks = append(g.asks, at)
			} else if r := s.answers[at].refusal; r != nil {
				return Preemption{}, r
			}
		}
	}
	if missing := s.missing(gang, g.asks); missing != "" {
		return Preemption{}, g.refused(fmt.Sprintf("gang %s is not complete: %s", gang, missing))
	}
	if g.place(true) || g.place(false) {
		return g.placed(nil), nil
	}
	victims := g.fewest()
	switch most := want.Most; {
	case len(victims) == 0 && s.spent():
		return Preemption{}, g.refused("no victims were found in the time there was")
	case len(victims) == 0:
		return Preemption{}, g.refused(fmt.Sprintf("not all %d of gang %s would fit, whatever of lower priority that is preemptible and not protected ended", len(g.asks), gang))
	case most > 0 && len(victims) > most:
		return Preemption{}, g.refused(fmt.Sprintf("it takes %d victims for all %d of gang %s, and at most %d are allowed", len(victims), len(g.asks), gang, most))
	}
	for _, v := range victims {
		s.strike(v)
	}
	if !g.place(true) {
		g.place(false)
	}
	found := g.placed(victims)
	if len(found.Placements) == 0 {
		return Preemption{}, g.refused(fmt.Sprintf("all of gang %s have room reserved, but not all of it can be used: nothing would wait for those who make way", gang))
	}
	return found, nil
}

// gangRoom looks for room for a gang.
type gangRoom struct {
	*solver
	want Sacrifice
	asks []int // by turn
}

func (g *gangRoom) refused(text string) *psg.Refusal {
	return refusal(g.want.Ask.ID, "preemption", text)
}

// place puts every member somewhere, where the orchestrator has put it already
// if that is preferred; or none.
func (g *gangRoom) place(home bool) bool {
	mark := len(g.journal)
	for _, at := range g.asks {
		if !g.settle(at, home) {
			g.takeBack(mark)
			return false
		}
	}
	return true
}

// takeBack undoes what was done since a mark in the journal.
func (g *gangRoom) takeBack(mark int) {
	g.undo(mark)
	for _, at := range g.asks {
		g.answers[at] = answer{}
	}
}

// settle is solver.place without the reasons why not.
func (g *gangRoom) settle(at int, home bool) bool {
	w, c := g.works[at], g.works[at].class
	ask := &g.p.Asks[at]
	if reserved := g.reservations(ask, w); len(reserved) > 0 && g.redeem(at, c, reserved[0]) {
		return true
	}
	only := g.want.Node
	if only == "" && home {
		only = ask.Node
	}
	if n, known := g.e.nodes[only]; known {
		if found, ok := g.e.fitsAt(c, n.slot); ok {
			g.grant(at, c, found, nil)
			return true
		}
	}
	if g.want.Node != "" {
		return false
	}
	found, ok := g.e.best(c)
	if ok {
		g.grant(at, c, found, nil)
	}
	return ok
}

// fits reports whether all have a place once some are gone. It leaves everything
// as it was.
func (g *gangRoom) fits(victims []*held) bool {
	mark := len(g.journal)
	for _, v := range victims {
		g.strike(v)
	}
	ok := g.place(false)
	g.takeBack(mark)
	return ok
}

// placed is where all are now, with those victims whose room they take.
func (g *gangRoom) placed(victims []*held) Preemption {
	var found Preemption
	goals := make(map[psg.NodeID]bool)
	for at := range g.p.Asks {
		if a := &g.answers[at]; a.placement != nil && a.consumed == "" && slices.Contains(g.asks, at) {
			found.Placements = append(found.Placements, *a.placement)
		}
		if p := g.answers[at].placement; p != nil {
			goals[p.Node] = true
		}
	}
	victims = slices.DeleteFunc(slices.Clone(victims), func(h *held) bool { return !goals[h.placement.Node] })
	slices.SortFunc(victims, byID)
	found.Victims = placementsOf(victims)
	return found
}
