package placement

import (
	"cmp"
	"slices"
	"time"

	"github.com/psgrid/psg"
)

// Problem is what one cycle asks of the engine.
type Problem struct {
	Now  time.Time
	Seed uint64 // for what searches at random; Solve itself draws nothing, ties break by node ID
	Asks []psg.Ask
	// Rulings are policy's verdicts by workload, over Rows. A workload without
	// one is not bound by policy; a node without a row is denied to those with
	// one. Rulings and rows are not changed once they have been handed over.
	Rulings map[psg.WorkloadID]*psg.Ruling
	Rows    []psg.NodeID // row to node, as in the snapshot that was ruled on
	// Stay are placements that Improve leaves where they are.
	Stay map[psg.RequestID]bool
	// Stop is asked between asks whether the budget is spent; the asks not
	// reached are named in the plan. Nil means never.
	Stop func() bool
}

// Solve decides the asks in order of priority, then age, then ID, each on what
// the earlier ones left. It leaves the engine as it was: the plan takes effect
// when its placements come back as Placed, after its Consumed as Freed.
//
// An ask that holds room already is answered with what it holds. Of an ask
// given twice only the first is answered. The plan's placements and refusals
// stand in the order of the asks.
func (e *Engine) Solve(p Problem) psg.Plan {
	t := e.Try(p)
	defer t.End()
	return t.Plan()
}

// newSolver brings the engine up to date and lines up a problem's asks.
func (e *Engine) newSolver(p Problem) *solver {
	e.endTrial()
	e.cycle++
	e.rerank()
	e.remix()
	e.setRows(p.Rows)
	s := &solver{
		e: e, p: p, works: make([]*workload, len(p.Asks)), answers: make([]answer, len(p.Asks)),
		gangs:   make(map[psg.GangID][]int),
		journal: make([]entry, 0, len(p.Asks)),
		room:    slabs{size: max(1, min(mostPerSlab, len(p.Asks)))},
	}
	s.line()
	return s
}

// spent reports whether the budget is.
func (s *solver) spent() bool { return s.p.Stop != nil && s.p.Stop() }

// solver is the scratch of one Solve.
type solver struct {
	e       *Engine
	p       Problem
	queue   []int       // asks by turn
	works   []*workload // by ask; nil where not known
	answers []answer
	gangs   map[psg.GangID][]int // asks by gang, by turn
	journal []entry
	why     explanations
	trials  int                            // placements whose end was tried out for an explanation
	anew    map[psg.WorkloadID]*psg.Ruling // of a Retry, instead of the problem's
	room    slabs
}

// answer is what became of one ask.
type answer struct {
	placement *psg.Placement
	refusal   *psg.Refusal
	deferred  *class // refused for want of a node; explained when all is decided
	skipped   bool   // the same ID was asked before
	stood     bool   // it held room already
	consumed  psg.RequestID
}

func (a *answer) given() bool {
	return a.placement != nil || a.refusal != nil || a.deferred != nil || a.skipped
}

// entry is one change to the engine's book that Solve takes back at its end.
type entry struct {
	held   *held
	struck bool
}

// line puts the asks in order of their turns and finds the gangs.
func (s *solver) line() {
	type turn struct{ at, priority int }
	turns := make([]turn, len(s.p.Asks))
	for i := range s.p.Asks {
		turns[i].at = i
		if w, ok := s.e.workloads[s.p.Asks[i].Workload]; ok {
			s.works[i], turns[i].priority = w, w.spec.Priority
		}
	}
	slices.SortFunc(turns, func(a, b turn) int {
		if a.priority != b.priority {
			return cmp.Compare(b.priority, a.priority)
		}
		x, y := &s.p.Asks[a.at], &s.p.Asks[b.at]
		return cmp.Or(x.At.Compare(y.At), cmp.Compare(x.ID, y.ID), cmp.Compare(a.at, b.at))
	})
	seen := make(map[psg.RequestID]bool, len(turns))
	s.queue = make([]int, len(turns))
	for i, t := range turns {
		s.queue[i] = t.at
		id := s.p.Asks[t.at].ID
		s.answers[t.at].skipped = seen[id]
		seen[id] = true
		if w := s.works[t.at]; w != nil && w.spec.Gang != "" {
			s.gangs[w.spec.Gang] = append(s.gangs[w.spec.Gang], t.at)
		}
	}
}

// decide answers one ask, or the whole gang it belongs to.
func (s *solver) decide(at int) {
	w, c := s.admit(at)
	if c == nil {
		return
	}
	if w.spec.Gang != "" {
		s.decideGang(w.spec.Gang)
		return
	}
	s.place(at, w, c)
}

// admit answers an ask that needs no choice of node; for any other it returns
// the workload and its class.
func (s *solver) admit(at int) (*workload, *class) {
	ask, a := &s.p.Asks[at], &s.answers[at]
	if h, ok := s.e.held[ask.ID]; ok {
		a.placement, a.stood = &h.placement, true
		return nil, nil
	}
	w := s.works[at]
	if w == nil || !w.known {
		a.refuse(ask, psg.Queued, psg.Reason{Source: "workload", Text: "not known yet"})
		return nil, nil
	}
	if w.cycle == s.e.cycle {
		return w, w.class // as for the last ask of this workload
	}
	ruling, anew := s.anew[w.id]
	if !anew {
		ruling = s.p.Rulings[w.id]
	}
	switch {
	case w.fault != "":
		a.refuse(ask, psg.Denied, psg.Reason{Source: "workload", Text: w.fault})
	case ruling != nil && len(ruling.Rejected) > 0:
		a.refuse(ask, psg.Denied, ruling.Rejected...)
	case w.spec.Count <= 0 && !w.spec.Type.EveryNode():
		a.refuse(ask, psg.Queued, psg.Reason{Source: "workload", Text: "its count is 0: it asks for nothing"})
	default:
		c := s.e.classUnder(w, ruling)
		w.cycle = s.e.cycle
		return w, c
	}
	return nil, nil
}

// classUnder is the class of a workload under a ruling, found without looking
// into the ruling where it is the one of last time.
func (e *Engine) classUnder(w *workload, ruling *psg.Ruling) *class {
	as := ruledAs{ruling, e.rulings.epoch}
	if w.class != nil && w.ruled == as {
		w.class.judged.used, w.shape.used = e.cycle, e.cycle
		return w.class
	}
	w.ruled = as
	return e.classOf(w, e.judge(ruling))
}

// place answers one ask and reports whether it got a place.
func (s *solver) place(at int, w *workload, c *class) bool {
	ask := &s.p.Asks[at]
	reserved := s.reservations(ask, w)
	if ask.Node != "" {
		return s.placePinned(at, c, reserved)
	}
	if len(reserved) > 0 && s.redeem(at, c, reserved[0]) {
		return true
	}
	found, ok := s.e.best(c)
	if !ok {
		s.answers[at].deferred = c
		return false
	}
	s.grant(at, c, found, nil)
	return true
}

// grant writes a placement into the book for the rest of this Solve. A
// reservation that it takes the room of has been struck before.
func (s *solver) grant(at int, c *class, found candidate, reserved *held) {
	ask := s.p.Asks[at]
	n := s.e.slots[found.slot]
	shares := s.e.hand(c.shape, n)
	h := s.room.held()
	h.workload, h.planned = s.works[at], true
	p := &h.placement
	*p = psg.Placement{
		Ask: ask, Node: n.spec.ID, State: psg.Granted, Request: c.shape.request, Devices: shares,
		Ports: c.shape.ports.shares(&n.spec), Score: s.room.score(&found.parts), Since: s.p.Now,
	}
	if ask.Hold > 0 {
		p.State, p.Expires = psg.Reserved, s.p.Now.Add(ask.Hold)
	}
	if reserved != nil {
		s.answers[at].consumed = reserved.placement.Ask.ID
		if reserved.placement.Node == p.Node {
			p.Request = p.Request.Max(reserved.placement.Request)
		}
	}
	s.e.book(h, n)
	s.journal = append(s.journal, entry{held: h})
	s.answers[at].placement = p
}

// strike takes a placement out of the book for the rest of this Solve.
func (s *solver) strike(h *held) {
	s.e.strike(h)
	s.journal = append(s.journal, entry{h, true})
}

// undo takes back what was done since a mark in the journal.
func (s *solver) undo(mark int) {
	for i := len(s.journal) - 1; i >= mark; i-- {
		if j := s.journal[i]; j.struck {
			s.e.book(j.held, s.e.nodes[j.held.placement.Node])
		} else {
			s.e.strike(j.held)
		}
	}
	s.journal = s.journal[:mark]
}

// plan collects the answers in the order of the asks.
func (s *solver) plan() psg.Plan {
	plan := psg.Plan{Placements: make([]psg.Placement, 0, len(s.journal)), Refusals: []psg.Refusal{}}
	for at := range s.answers {
		s.collect(&plan, at)
	}
	return plan
}

func (s *solver) collect(plan *psg.Plan, at int) {
	switch a := &s.answers[at]; {
	case a.skipped:
	case a.placement != nil:
		plan.Placements = append(plan.Placements, *a.placement)
		if a.consumed != "" {
			plan.Consumed = append(plan.Consumed, a.consumed)
		}
	case a.refusal != nil:
		plan.Refusals = append(plan.Refusals, *a.refusal)
	default:
		plan.Unreached = append(plan.Unreached, s.p.Asks[at].ID)
	}
}

// refuse answers an ask that no choice of node can help.
func (a *answer) refuse(ask *psg.Ask, state psg.State, reasons ...psg.Reason) {
	r := &psg.Refusal{Ask: ask.ID, State: state, Summary: reasons[0].Source + ": " + reasons[0].Text}
	for _, reason := range reasons {
		r.Excluded = append(r.Excluded, psg.Exclusion{Reason: reason})
	}
	a.refusal = r
}
