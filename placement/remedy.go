package placement

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/psgrid/psg"
)

const (
	mostRemedied = 16  // nodes on which a placement to stop is looked for
	mostStops    = 512 // placements that are tried for that
	mostLetIn    = 64  // and where a limit in the cluster is reached
	// mostTrials bounds those tried in one Solve: many are refused at once where
	// there is little room, and each placement tried takes microseconds.
	mostTrials = 16_384
)

// hurdle is a node on which one thing alone stands in the way.
type hurdle struct {
	node *node
	only objection
}

// hurdles keeps, for each kind of remedy, the node where the least is in the way,
// and those where what is in the way may go with a placement.
type hurdles struct {
	less, drop, lift hurdle
	busy             []miss // the nearest first, at most mostRemedied
}

func (h *hurdles) add(n *node, list []objection) {
	m := miss{node: n, reasons: len(list)}
	for i := range list {
		m.weight += list[i].weight
	}
	if m.weight < farAway {
		h.busy = insertMiss(h.busy, m, mostRemedied)
	}
	if len(list) != 1 {
		return
	}
	into := &h.lift
	switch list[0].source {
	case "capacity":
		into = &h.less
	case "constraint":
		into = &h.drop
	case "device":
		if list[0].weight >= farAway {
			return // there are not as many cards, free or not
		}
	}
	if into.node == nil || cmp.Or(cmp.Compare(list[0].weight, into.only.weight), cmp.Compare(n.spec.ID, into.node.spec.ID)) < 0 {
		*into = hurdle{n, list[0]}
	}
}

// remedies lists the changes of which each alone would do, in the order of what
// they cost somebody: the asker first.
func (s *solver) remedies(w *workload, c *class, h *hurdles) []psg.Remedy {
	var list []psg.Remedy
	if n := h.less.node; n != nil {
		if text, ok := s.e.askLess(c.shape, n); ok {
			list = append(list, psg.Remedy{Kind: psg.RemedyAskLess, Node: n.spec.ID, Text: text})
		}
	}
	if n := h.drop.node; n != nil {
		list = append(list, psg.Remedy{
			Kind: psg.RemedyDrop, Node: n.spec.ID,
			Text: fmt.Sprintf("do without constraint %s: then it fits %s", h.drop.only.text, n.name()),
		})
	}
	if stop := s.oneStop(w, c, h.busy); stop != nil {
		list = append(list, psg.Remedy{
			Kind: psg.RemedyStop, Node: stop.node.spec.ID, Ask: stop.placement.Ask.ID,
			Text: s.stopping(stop, w),
		})
	}
	if n := h.lift.node; n != nil {
		if text, ok := s.e.lifted(w, c, n); ok {
			list = append(list, psg.Remedy{Kind: psg.RemedyLift, Node: n.spec.ID, Text: text})
		}
	}
	return list
}

// askLess says how much less of the one dimension that is short would do. Where
// it is the MHz that come with reserved cores that are short, there is no such
// amount.
func (e *Engine) askLess(s *shape, n *node) (string, bool) {
	room := &e.rooms[n.slot]
	for d, short := range room.need(s.request).Shortfall(room.free) {
		if short > 0 && room.free[d] >= 0 && s.request[d] >= short {
			return fmt.Sprintf("ask for %d %s less: then it fits %s", short, psg.Dimension(d), n.name()), true
		}
	}
	return "", false
}

// lifted says what would have to be otherwise on a node.
func (e *Engine) lifted(w *workload, c *class, n *node) (string, bool) {
	var full objections
	e.object(w, c, n, &full)
	if len(full.list) != 1 {
		return "", false
	}
	if full.list[0].source != "device" {
		return fmt.Sprintf("lift on %s: %s", n.name(), inWords(full.list[0])), true
	}
	ask := c.shape.plain
	if ask == nil {
		return "", false // one card more need not be one that suits the others
	}
	short := ask.Count - n.canServe(ask, c.shape.filter.on(e, n.slot).cards[0])
	return fmt.Sprintf("free %d more of %s on %s", short, c.shape.deviceTexts[0], n.name()), true
}

// oneStop finds a placement on one of some nodes whose end alone would make the
// class fit there: one that may be preempted for it before others, of the lowest
// priority, on the nearest node.
func (s *solver) oneStop(w *workload, c *class, nodes []miss) *held {
	var best *held
	rank := func(h *held) int { return cmp.Compare(len(s.byPreemption(h, w)), 0) }
	better := func(a, b *held) bool {
		return cmp.Or(cmp.Compare(rank(b), rank(a)), cmp.Compare(a.workload.spec.Priority, b.workload.spec.Priority)) < 0
	}
	tries := 0
	for _, m := range nodes {
		may := slices.DeleteFunc(slices.Clone(m.node.held), func(h *held) bool { return !s.e.settled(h) })
		slices.SortFunc(may, func(a, b *held) int {
			return cmp.Or(cmp.Compare(rank(b), rank(a)), byPriority(a, b))
		})
		for i, h := range may {
			if best != nil && !better(h, best) {
				break
			}
			if i > 0 && interchangeable(may[i-1], h) {
				continue
			}
			if tries++; tries > mostStops || s.trials >= mostTrials || s.spent() {
				return best
			}
			s.trials++
			if _, ok := s.fitsWithout(c, m.node, h); ok {
				best = h
				break
			}
		}
	}
	return best
}

// letIn finds a placement whose end would let a class into the cluster, where it
// has room: a limit that counts both is what keeps it out. One that may be preempted
// for it comes before others, then the lowest in priority.
func (s *solver) letIn(w *workload, c *class, limit int) []psg.Remedy {
	may := s.why.under(s.e, limit)
	for _, preempted := range []bool{true, false} {
		for _, h := range may {
			if h.node == nil || s.mayEnd(h, w) != preempted { // nil: it was of a gang that did not fit
				continue
			}
			if s.trials >= mostTrials || s.spent() {
				return nil
			}
			s.trials += 1 + len(s.e.slots)/16 // it may look at all of them
			if n := s.instead(c, h); n != nil {
				return []psg.Remedy{{Kind: psg.RemedyStop, Node: n.spec.ID, Ask: h.placement.Ask.ID, Text: s.stopping(h, w)}}
			}
		}
	}
	return nil
}

// instead is where a class has room once a placement is gone, or nil.
func (s *solver) instead(c *class, h *held) *node {
	mark := len(s.journal)
	defer s.undo(mark)
	s.strike(h)
	found, ok := s.e.best(c)
	if !ok {
		return nil
	}
	return s.e.slots[found.slot]
}

func (s *solver) stopping(h *held, w *workload) string {
	return fmt.Sprintf("stop %s of %s on %s%s", h.placement.Ask.ID, h.workload.id, h.node.name(), s.byPreemption(h, w))
}

// byPreemption says that a placement may be made to end for a workload, or
// nothing.
func (s *solver) byPreemption(h *held, w *workload) string {
	if s.mayEnd(h, w) {
		return ", which may be preempted for it"
	}
	return ""
}
