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
	if p.Asks = want.Gang; !slices.ContainsFunc(want.Gang, func(a psg.Ask) bool { return a.ID == want.Ask.ID }) {
		p.Asks = append(slices.Clip(want.Gang), want.Ask)
	}
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
	return g.makeRoom(gang)
}

// makeRoom finds who must end for a gang that does not fit as it is.
func (g *gangRoom) makeRoom(gang psg.GangID) (Preemption, *psg.Refusal) {
	victims := g.fewest()
	switch most := g.want.Most; {
	case len(victims) == 0 && g.spent():
		return Preemption{}, g.refused("no victims were found in the time there was")
	case len(victims) == 0:
		return Preemption{}, g.refused(fmt.Sprintf("not all %d of gang %s would fit, whatever of lower priority that is preemptible and not protected ended", len(g.asks), gang))
	case most > 0 && len(victims) > most:
		return Preemption{}, g.refused(fmt.Sprintf("it takes %d victims for all %d of gang %s, and at most %d are allowed", len(victims), len(g.asks), gang, most))
	}
	found, ok := g.outcome(victims, true)
	if !ok {
		found, _ = g.outcome(victims, false)
	}
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

// without has some gone and all put somewhere. It returns those of them on whose
// nodes the gang is then.
func (g *gangRoom) without(victims []*held, home bool) (taken []*held, ok bool) {
	for _, v := range victims {
		g.strike(v)
	}
	ok = g.place(home)
	goals := g.goals()
	return slices.DeleteFunc(slices.Clone(victims), func(h *held) bool { return !goals[h.placement.Node] }), ok
}

// fits reports whether all have a place once some are gone. It leaves everything
// as it was.
func (g *gangRoom) fits(victims []*held) bool {
	mark := len(g.journal)
	_, ok := g.without(victims, false)
	g.takeBack(mark)
	return ok
}

// needed are those of some victims with whom gone all have a place, and one of the
// gang goes to the node of each; none if that leads nowhere. On those nodes alone
// anybody is made to end: who is elsewhere is not in the way, though a limit in the
// cluster may count it.
func (g *gangRoom) needed(victims []*held) []*held {
	mark := len(g.journal)
	taken, ok := g.without(victims, false)
	g.takeBack(mark)
	switch {
	case !ok:
		return nil
	case len(taken) < len(victims):
		return g.needed(taken)
	}
	return victims
}

// outcome is where all are once the victims that are needed for it are gone.
func (g *gangRoom) outcome(victims []*held, home bool) (Preemption, bool) {
	mark := len(g.journal)
	taken, ok := g.without(victims, home)
	switch {
	case !ok:
		g.takeBack(mark)
		return Preemption{}, false
	case len(taken) < len(victims):
		g.takeBack(mark)
		return g.outcome(taken, home)
	}
	return g.placed(victims), true
}

// goals are the nodes where the gang is now.
func (g *gangRoom) goals() map[psg.NodeID]bool {
	goals := make(map[psg.NodeID]bool)
	for _, at := range g.asks {
		if p := g.answers[at].placement; p != nil {
			goals[p.Node] = true
		}
	}
	return goals
}

// placed is where all are now who are not where they have room reserved.
func (g *gangRoom) placed(victims []*held) Preemption {
	var found Preemption
	for at := range g.p.Asks {
		if a := &g.answers[at]; a.placement != nil && a.consumed == "" && slices.Contains(g.asks, at) {
			found.Placements = append(found.Placements, *a.placement)
		}
	}
	victims = slices.SortedFunc(slices.Values(victims), byID)
	found.Victims = placementsOf(victims)
	return found
}
