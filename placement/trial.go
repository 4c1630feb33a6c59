package placement

import (
	"slices"

	"github.com/psgrid/psg"
)

// Trial is a problem's answer that may be amended before it is taken up. The
// engine is as the answer leaves it until End. Whatever else it is asked or told
// before that ends the trial first, so that nothing is ever decided, or applied, on
// what was only tried.
type Trial struct{ s *solver }

// Try decides a problem as Solve does.
func (e *Engine) Try(p Problem) Trial {
	s := e.newSolver(p)
	for _, at := range s.queue {
		if s.spent() {
			break
		}
		if !s.answers[at].given() {
			s.decide(at)
		}
	}
	s.explain()
	e.open = s
	return Trial{s}
}

// Plan is the answer as it stands.
func (t Trial) Plan() psg.Plan { return t.s.plan() }

// End leaves the engine as it was before Try. It does nothing a second time.
func (t Trial) End() {
	if e := t.s.e; e.open == t.s {
		e.endTrial()
	}
}

// endTrial takes back what a trial that has not ended has placed.
func (e *Engine) endTrial() {
	if s := e.open; s != nil {
		e.open = nil
		s.undo(0)
		e.sweepIdle()
	}
}

// Retry is a gang that is to be placed anew, or what of it comes after its first
// members; or an ask of no gang.
type Retry struct {
	Gang psg.GangID
	Asks []psg.RequestID // all that have a place in the plan, in the order to place them in; one where Gang is empty
	Keep int             // how many of the first stay where they are
	// Rulings replace the problem's for the workloads of the asks that do not stay.
	Rulings map[psg.WorkloadID]*psg.Ruling
	// On are nodes that asks go to if they may and can; elsewhere the best is taken.
	On map[psg.RequestID]psg.NodeID
}

// Again places a gang, or an ask of none, anew beside the rest of the plan, and returns its
// part: all of its asks have a place, or all are refused; or, once the trial has
// ended, none is reached. It takes no notice of Problem.Stop.
func (t Trial) Again(r Retry) psg.Plan {
	s := t.s
	if s.e.open != s {
		return psg.Plan{Unreached: slices.Clone(r.Asks)}
	}
	asks := s.asksOf(&r)
	r.Keep = min(r.Keep, len(asks))
	s.anew, s.why = r.Rulings, explanations{}
	for _, at := range asks[r.Keep:] {
		s.takeBack(at)
		if w := s.works[at]; w != nil {
			w.cycle = 0 // its class is another's under another ruling
		}
	}
	s.placeGang(r.Gang, asks, &r)
	var plan psg.Plan
	for _, at := range asks {
		s.collect(&plan, at)
	}
	return plan
}

// asksOf are the asks of a retry, in its order.
func (s *solver) asksOf(r *Retry) []int {
	members := s.gangs[r.Gang]
	if r.Gang == "" {
		members = s.queue
	}
	index := make(map[psg.RequestID]int, len(r.Asks))
	for _, id := range r.Asks {
		index[id] = -1
	}
	for _, at := range members {
		id := s.p.Asks[at].ID
		if _, wanted := index[id]; wanted && !s.answers[at].skipped {
			index[id] = at
		}
	}
	var asks []int
	for _, id := range r.Asks {
		if at := index[id]; at >= 0 {
			asks = append(asks, at)
		}
	}
	return asks
}

// takeBack takes an ask's place from it, if this problem gave it one, and gives
// back the reservation that it used.
func (s *solver) takeBack(at int) {
	a := &s.answers[at]
	if a.stood {
		return
	}
	if a.placement != nil {
		s.strike(s.e.held[a.placement.Ask.ID])
	}
	for i := len(s.journal) - 1; i >= 0 && a.consumed != ""; i-- {
		if h := s.journal[i].held; h.placement.Ask.ID == a.consumed {
			s.e.book(h, s.e.nodes[h.placement.Node])
			s.journal = append(s.journal, entry{held: h})
			break
		}
	}
	*a = answer{}
}

// placeOn places an ask on the node that is named for it, unless there is a
// reservation to take up.
func (s *solver) placeOn(at int, w *workload, c *class, on map[psg.RequestID]psg.NodeID) bool {
	ask := &s.p.Asks[at]
	n := s.e.nodes[on[ask.ID]]
	if n == nil || ask.Node != "" || len(s.reservations(ask, w)) > 0 {
		return false
	}
	found, ok := s.e.fitsAt(c, n.slot)
	if ok {
		s.grant(at, c, found, nil)
	}
	return ok
}
