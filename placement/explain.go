package placement

import (
	"fmt"
	"slices"
	"strings"

	"github.com/psgrid/psg"
)

// explanations holds one refusal per class: those who are refused alike are
// told alike, what the cluster looked like when the cycle was decided.
type explanations struct {
	byClass map[*class]psg.Refusal
	byLimit map[int][]*held
}

// under lists the first of the placements that a limit counts and that stand, the
// lowest in priority first.
func (x *explanations) under(e *Engine, limit int) []*held {
	if list, known := x.byLimit[limit]; known {
		return list
	}
	if x.byLimit == nil {
		x.byLimit = make(map[int][]*held)
	}
	var list []*held
	for _, w := range e.workloads {
		if !slices.Contains(w.limits, limit) {
			continue
		}
		for _, h := range w.held {
			if h.node != nil && e.settled(h) {
				list = append(list, h)
			}
		}
	}
	slices.SortFunc(list, byPriority)
	x.byLimit[limit] = list[:min(len(list), mostLetIn)]
	return x.byLimit[limit]
}

// explain fills in the refusals that were left for the end.
func (s *solver) explain() {
	for at := range s.answers {
		if s.answers[at].deferred != nil {
			s.why.now(s, at)
		}
	}
}

// now turns a deferred answer into a refusal.
func (x *explanations) now(s *solver, at int) {
	if x.byClass == nil {
		x.byClass = make(map[*class]psg.Refusal)
	}
	a, ask := &s.answers[at], &s.p.Asks[at]
	c := a.deferred
	r, ok := x.byClass[c]
	if !ok {
		r = s.explainClass(s.works[at], c)
		x.byClass[c] = r
	}
	r.Ask = ask.ID
	*a = answer{refusal: &r}
}

// explainClass looks at every node for why a class's workload has none. It is
// brief once the budget is spent.
func (s *solver) explainClass(w *workload, c *class) psg.Refusal {
	e, r := s.e, psg.Refusal{State: psg.Queued}
	if i := e.totalReached(c.shape, nil); i >= 0 {
		limit := &e.cfg.Limits[i]
		reason := psg.Reason{Source: "limit " + limit.Name, Text: fmt.Sprintf("at most %d in the cluster", limit.Total)}
		r.Excluded = []psg.Exclusion{{Reason: reason, Nodes: len(e.nodes)}}
		r.Summary = fmt.Sprintf("%s: %s", reason.Source, reason.Text)
		r.Remedies = s.letIn(w, c, i)
		return r
	}
	if s.spent() {
		r.Summary = "no node has room; the cycle's time was up before it could say why"
		return r
	}
	var g gatherer
	o := objections{mode: inBrief}
	for _, n := range e.slots {
		if n != nil {
			o.list = o.list[:0]
			e.object(w, c, n, &o)
			g.add(n, o.list)
		}
	}
	var nearest []nearMiss
	for _, m := range g.nearest {
		full := objections{}
		e.object(w, c, m.node, &full)
		nearest = append(nearest, nearMiss{m.node, full.list})
	}
	g.fill(&r, nearest)
	r.Remedies = s.remedies(w, c, &g.hurdles)
	return r
}

// explainNode says why a workload does not fit one node, nil for a node that is
// not known.
func (s *solver) explainNode(ask *psg.Ask, w *workload, c *class, n *node) psg.Refusal {
	e, r := s.e, psg.Refusal{Ask: ask.ID, State: psg.Queued}
	if n == nil {
		r.Summary = fmt.Sprintf("node %s is not known", ask.Node)
		r.Excluded = []psg.Exclusion{{Reason: psg.Reason{Source: "node", Text: "not known"}, Nodes: 1}}
		return r
	}
	var o objections
	e.object(w, c, n, &o)
	if i := e.totalReached(c.shape, nil); i >= 0 {
		limit := &e.cfg.Limits[i]
		o.raise("limit "+limit.Name, "at most %d in the cluster", limit.Total)
	}
	var texts []string
	near := psg.NearMiss{Node: n.spec.ID}
	for _, why := range o.list {
		r.Excluded = append(r.Excluded, psg.Exclusion{Reason: why.general(), Nodes: 1})
		near.Missing = append(near.Missing, why.precise())
		texts = append(texts, inWords(why))
		if why.policy {
			r.State = psg.Denied
		}
	}
	r.Nearest = []psg.NearMiss{near}
	if w.spec.Type.EveryNode() { // any other may go elsewhere
		var h hurdles
		h.add(n, o.list)
		r.Remedies = s.remedies(w, c, &h)
	}
	r.Summary = fmt.Sprintf("not on %s: %s", n.name(), strings.Join(texts, "; "))
	return r
}

// object raises all that keeps a workload off a node now.
func (e *Engine) object(w *workload, c *class, n *node, o *objections) {
	s := c.shape
	v := s.filter.on(e, n.slot)
	if !v.ok {
		s.filter.object(n, o)
		judged := s.filter.matching(n)
		v = &judged
	}
	e.objectPolicy(c, n, o)
	e.rooms[n.slot].object(s.request, o)
	n.objectCards(s, v, o)
	s.ports.object(n, o)
	for _, i := range s.limits {
		limit := &e.cfg.Limits[i]
		if limit.PerNode > 0 && !limit.Soft && n.limits[i] >= limit.PerNode {
			o.short("limit "+limit.Name, fmt.Sprintf("at most %d per node", limit.PerNode), 1000, ": %d run here", n.limits[i])
		}
	}
	if s.crowded(n) {
		o.short("constraint", string(psg.DistinctHosts), 1000, ": an instance is here already")
	}
	if s.counts() {
		w.objectCell(n, o)
	}
}

func (e *Engine) objectPolicy(c *class, n *node, o *objections) {
	if c.judged.ruling == nil || !c.judged.denied.Has(int(n.slot)) {
		return
	}
	row := e.rulings.byRow[n.slot]
	if row < 0 {
		o.denied(psg.Reason{Source: "policy", Text: "the node is newer than the ruling"})
		return
	}
	for _, reason := range c.judged.ruling.Why(row) {
		o.denied(reason)
	}
}
