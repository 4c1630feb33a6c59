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

// gatherer sums objections over nodes and keeps the nearest misses.
type gatherer struct {
	nodes     int
	counts    []psg.Exclusion
	nearest   []miss
	qualified int // nodes whose own qualities suit
	denied    int // of those, nodes that policy denies
	anyDenied int
	hurdles   hurdles
}

// miss is one node that does not fit, and how far it is from that.
type miss struct {
	node    *node
	weight  int64
	reasons int
}

// nearMiss is a miss with everything that was raised, in full.
type nearMiss struct {
	node *node
	list []objection
}

func (g *gatherer) add(n *node, list []objection) {
	g.nodes++
	qualified, denied, weight := true, false, int64(0)
	for i := range list {
		o := &list[i]
		if !slices.ContainsFunc(list[:i], func(before objection) bool { return before.general() == o.general() }) {
			g.count(o.general())
		}
		weight += o.weight
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
	g.nearest = insertMiss(g.nearest, miss{n, weight, len(list)}, mostNearest)
	g.hurdles.add(n, list)
}

func (g *gatherer) count(reason psg.Reason) {
	for i := range g.counts {
		if g.counts[i].Reason == reason {
			g.counts[i].Nodes++
			return
		}
	}
	g.counts = append(g.counts, psg.Exclusion{Reason: reason, Nodes: 1})
}

// insertMiss inserts a miss where it is among the nearest.
func insertMiss(list []miss, m miss, most int) []miss {
	at, _ := slices.BinarySearchFunc(list, m, nearer)
	if at >= most {
		return list
	}
	list = slices.Insert(list, at, m)
	return list[:min(len(list), most)]
}

// nearer orders misses by how far they are from fitting, then by what else is
// missing, then by ID.
func nearer(a, b miss) int {
	return cmp.Or(cmp.Compare(a.weight, b.weight), cmp.Compare(a.reasons, b.reasons), cmp.Compare(a.node.spec.ID, b.node.spec.ID))
}

// fill writes what was gathered into a refusal.
func (g *gatherer) fill(r *psg.Refusal, nearest []nearMiss) {
	r.Excluded = g.counts
	slices.SortFunc(r.Excluded, func(a, b psg.Exclusion) int {
		return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Reason.Source, b.Reason.Source), cmp.Compare(a.Reason.Text, b.Reason.Text))
	})
	for _, m := range nearest {
		near := psg.NearMiss{Node: m.node.spec.ID}
		for _, o := range m.list {
			near.Missing = append(near.Missing, o.precise())
		}
		r.Nearest = append(r.Nearest, near)
	}
	if g.deniedEverywhere() {
		r.State = psg.Denied
	}
	r.Summary = g.summary(nearest)
}

// deniedEverywhere reports whether policy is what leaves no node: it denies
// every node that would qualify, or every node there is.
func (g *gatherer) deniedEverywhere() bool {
	return g.nodes > 0 && (g.anyDenied == g.nodes || g.qualified > 0 && g.denied == g.qualified)
}

// summary is the refusal in one line.
func (g *gatherer) summary(nearest []nearMiss) string {
	if g.nodes == 0 {
		return "there are no nodes"
	}
	best := nearest[0]
	if len(best.list) == 0 {
		return fmt.Sprintf("room came free on %s after this was decided", best.node.name())
	}
	var texts []string
	for _, o := range best.list {
		texts = append(texts, inWords(o))
	}
	verdict := "no node has room"
	switch {
	case g.deniedEverywhere():
		verdict = "policy denies every node"
	case g.qualified == 0:
		verdict = "no node qualifies"
	}
	text := fmt.Sprintf("%s: %s", verdict, strings.Join(texts, "; "))
	if !g.deniedEverywhere() {
		text += " on " + best.node.name()
	}
	if g.nodes > 1 {
		text += fmt.Sprintf(" (nearest of %d)", g.nodes)
	}
	return text
}

// inWords writes an objection for people. Capacity speaks for itself; the
// others name their source, and policy's is a sentence of its own.
func inWords(o objection) string {
	switch {
	case o.policy:
		return o.source + ": " + o.text + o.detail
	case slices.Contains([]string{"capacity", "node", "volume", "spread"}, o.source):
		return o.text + o.detail
	}
	return o.source + " " + o.text + o.detail
}
