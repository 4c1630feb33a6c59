package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/psgrid/psg"
)

// mostNearest is how many near misses a refusal names.
const mostNearest = 3

// explanations holds one refusal per class: those who are refused alike are
// told alike, what the cluster looked like when the cycle was decided.
type explanations struct {
	byClass map[*class]psg.Refusal
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
		r = s.e.explainClass(s.works[at], c, s.p.Stop)
		x.byClass[c] = r
	}
	r.Ask = ask.ID
	*a = answer{refusal: &r}
}

// miss is one node that does not fit.
type miss struct {
	node   *node
	list   []objection
	weight int64
}

// explainClass looks at every node for why a class's workload has none. It is
// brief once the budget is spent.
func (e *Engine) explainClass(w *workload, c *class, stop func() bool) psg.Refusal {
	r := psg.Refusal{State: psg.Queued}
	if i := e.totalReached(c.shape); i >= 0 {
		limit := &e.cfg.Limits[i]
		reason := psg.Reason{Source: "limit " + limit.Name, Text: fmt.Sprintf("at most %d in the cluster", limit.Total)}
		r.Excluded = []psg.Exclusion{{Reason: reason, Nodes: len(e.nodes)}}
		r.Summary = fmt.Sprintf("%s: %s", reason.Source, reason.Text)
		return r
	}
	if stop != nil && stop() {
		r.Summary = "no node has room; the cycle's time was up before it could say why"
		return r
	}
	g := gatherer{counts: make(map[psg.Reason]int)}
	for _, n := range e.slots {
		if n != nil {
			g.add(e.object(w, c, n))
		}
	}
	g.fill(&r)
	return r
}

// explainNode says why a workload does not fit one node, nil for a node that is
// not known.
func (e *Engine) explainNode(ask *psg.Ask, w *workload, c *class, n *node) psg.Refusal {
	r := psg.Refusal{Ask: ask.ID, State: psg.Queued}
	if n == nil {
		r.Summary = fmt.Sprintf("node %s is not known", ask.Node)
		r.Excluded = []psg.Exclusion{{Reason: psg.Reason{Source: "node", Text: "not known"}, Nodes: 1}}
		return r
	}
	m := e.object(w, c, n)
	if i := e.totalReached(c.shape); i >= 0 {
		limit := &e.cfg.Limits[i]
		m.list = append(m.list, objection{source: "limit " + limit.Name, text: fmt.Sprintf("at most %d in the cluster", limit.Total)})
	}
	var texts []string
	near := psg.NearMiss{Node: n.spec.ID}
	for _, o := range m.list {
		r.Excluded = append(r.Excluded, psg.Exclusion{Reason: o.general(), Nodes: 1})
		near.Missing = append(near.Missing, o.precise())
		texts = append(texts, inWords(o))
		if o.policy {
			r.State = psg.Denied
		}
	}
	r.Nearest = []psg.NearMiss{near}
	r.Summary = fmt.Sprintf("not on %s: %s", n.name(), strings.Join(texts, "; "))
	return r
}

// object lists all that keeps a workload off a node now.
func (e *Engine) object(w *workload, c *class, n *node) miss {
	o := objections{}
	s := c.shape
	v := s.filter.on(e, n.slot)
	if !v.ok {
		s.filter.object(n, &o)
		judged := s.filter.matching(n)
		v = &judged
	}
	e.objectPolicy(c, n, &o)
	e.rooms[n.slot].object(s.request, &o)
	n.objectCards(s, v, &o)
	s.ports.object(n, &o)
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
		w.objectCell(n, &o)
	}
	m := miss{node: n, list: o.list}
	for i := range o.list {
		m.weight += o.list[i].weight
	}
	return m
}

func (e *Engine) objectPolicy(c *class, n *node, o *objections) {
	if c.judged.ruling == nil || !c.judged.denied.Has(int(n.slot)) {
		return
	}
	row := e.rulings.byRow[n.slot]
	if row < 0 {
		o.raise("policy", "the node is newer than the ruling")
		o.list[len(o.list)-1].policy = true
		return
	}
	for _, reason := range c.judged.ruling.Why(row) {
		o.raise(reason.Source, "%s", reason.Text)
		o.list[len(o.list)-1].policy = true
	}
}

// gatherer sums objections over nodes and keeps the nearest misses.
type gatherer struct {
	nodes     int
	counts    map[psg.Reason]int
	nearest   []miss
	qualified int // nodes whose own qualities suit
	denied    int // of those, nodes that policy denies
	anyDenied int
}

func (g *gatherer) add(m miss) {
	g.nodes++
	qualified, denied := true, false
	seen := make(map[psg.Reason]bool, len(m.list))
	for _, o := range m.list {
		if reason := o.general(); !seen[reason] {
			seen[reason] = true
			g.counts[reason]++
		}
		switch {
		case o.policy:
			denied = true
		case o.weight >= farAway:
			qualified = false
		}
	}
	if qualified {
		g.qualified++
	}
	if denied {
		g.anyDenied++
		if qualified {
			g.denied++
		}
	}
	g.nearest = append(g.nearest, m)
	slices.SortStableFunc(g.nearest, nearer)
	g.nearest = g.nearest[:min(len(g.nearest), mostNearest)]
}

// nearer orders misses by how far they are from fitting, then by what else is
// missing, then by ID.
func nearer(a, b miss) int {
	return cmp.Or(cmp.Compare(a.weight, b.weight), cmp.Compare(len(a.list), len(b.list)), cmp.Compare(a.node.spec.ID, b.node.spec.ID))
}

// fill writes what was gathered into a refusal.
func (g *gatherer) fill(r *psg.Refusal) {
	for reason, nodes := range g.counts {
		r.Excluded = append(r.Excluded, psg.Exclusion{Reason: reason, Nodes: nodes})
	}
	slices.SortFunc(r.Excluded, func(a, b psg.Exclusion) int {
		return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Reason.Source, b.Reason.Source), cmp.Compare(a.Reason.Text, b.Reason.Text))
	})
	for _, m := range g.nearest {
		near := psg.NearMiss{Node: m.node.spec.ID}
		for _, o := range m.list {
			near.Missing = append(near.Missing, o.precise())
		}
		r.Nearest = append(r.Nearest, near)
	}
	if g.deniedEverywhere() {
		r.State = psg.Denied
	}
	r.Summary = g.summary()
}

// deniedEverywhere reports whether policy is what leaves no node: it denies
// every node that would qualify, or every node there is.
func (g *gatherer) deniedEverywhere() bool {
	return g.nodes > 0 && (g.anyDenied == g.nodes || g.qualified > 0 && g.denied == g.qualified)
}

// summary is the refusal in one line.
func (g *gatherer) summary() string {
	if g.nodes == 0 {
		return "there are no nodes"
	}
	best := g.nearest[0]
	if len(best.list) == 0 {
		return fmt.Sprintf("room came free on %s after this was decided", best.node.name())
	}
	var texts []string
	for _, o := range best.list {
		texts = append(texts, inWords(o))
	}
	what := strings.Join(texts, "; ")
	switch {
	case g.deniedEverywhere():
		return fmt.Sprintf("policy denies every node: %s on %s%s", what, best.node.name(), g.of())
	case g.qualified == 0:
		return fmt.Sprintf("no node qualifies: %s on %s%s", what, best.node.name(), g.of())
	}
	return fmt.Sprintf("no node has room: %s on %s%s", what, best.node.name(), g.of())
}

func (g *gatherer) of() string {
	if g.nodes == 1 {
		return ""
	}
	return fmt.Sprintf(" (nearest of %d)", g.nodes)
}

// inWords writes an objection for people. Capacity speaks for itself; the
// others name their source.
func inWords(o objection) string {
	switch o.source {
	case "capacity", "node", "volume", "spread":
		return o.text + o.detail
	}
	return o.source + " " + o.text + o.detail
}
