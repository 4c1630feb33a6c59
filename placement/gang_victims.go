package placement

import (
	"cmp"
	"slices"

	"github.com/psgrid/psg"
)

// fewest finds a gang's victims; none if all that may end would not do, or if
// the budget is spent before there are any.
func (g *gangRoom) fewest() []*held {
	may := g.lesser()
	set := g.whereTheyGo(may)
	if len(set) == 0 || g.spent() {
		return nil
	}
	if fewer := g.inTurn(); fewer != nil {
		set = fewer
	}
	set = pruned(set, g.fits)
	search := setSearch{solver: g.solver, may: may, left: maxSets}
	search.fits = func(victims []*held) bool {
		if g.spent() {
			search.left = 0
			return false
		}
		return g.fits(victims)
	}
	search.upTo(len(set))
	if found := weighed(set); search.found && g.e.cheaper(&search.best, &found) {
		set = search.best.victims
	}
	return set
}

// lowest is the member of the lowest priority.
func (g *gangRoom) lowest() *workload {
	at := slices.MinFunc(g.asks, func(a, b int) int {
		return cmp.Compare(g.works[a].spec.Priority, g.works[b].spec.Priority)
	})
	return g.works[at]
}

// lesser lists what the gang may preempt where one of it may go, the lowest in
// priority first.
func (g *gangRoom) lesser() []*held {
	var list []*held
	lowest := g.lowest()
	for _, n := range g.e.byRank() {
		suits := g.want.Node == "" || g.want.Node == n.spec.ID
		if suits && slices.ContainsFunc(g.asks, func(at int) bool { return g.suits(g.works[at].class, n) }) {
			list = append(list, g.solver.lesser(n, lowest)...)
		}
	}
	slices.SortStableFunc(list, func(a, b *held) int { // of one node they are by ID
		return cmp.Compare(a.workload.spec.Priority, b.workload.spec.Priority)
	})
	return list
}

// whereTheyGo are, of those whose end together lets all fit, the ones on the
// nodes where the gang goes then; none if it does not fit even then.
func (g *gangRoom) whereTheyGo(may []*held) []*held {
	mark := len(g.journal)
	for _, v := range may {
		g.strike(v)
	}
	goals := make(map[psg.NodeID]bool)
	if g.place(false) {
		for _, at := range g.asks {
			goals[g.answers[at].placement.Node] = true
		}
	}
	g.takeBack(mark)
	return slices.DeleteFunc(slices.Clone(may), func(h *held) bool { return !goals[h.placement.Node] })
}

// inTurn has each member that has no room take the cheapest offer, and returns
// the victims of all; nil if that leads nowhere. A node that was taken makes its
// next offer on what is left there.
func (g *gangRoom) inTurn() []*held {
	mark := len(g.journal)
	defer func() { g.takeBack(mark) }()
	var victims []*held
	offers := make(map[*class][]sacrifice)
	for _, at := range g.asks {
		if g.settle(at, true) {
			g.renew(offers, g.e.nodes[g.answers[at].placement.Node])
			continue
		}
		c := g.works[at].class
		if offers[c] == nil {
			offers[c] = g.offers(c)
		}
		best, ok := g.accept(at, offers)
		if !ok {
			return nil
		}
		for _, v := range best.victims {
			g.strike(v)
		}
		g.grant(at, c, best.at, nil)
		victims = append(victims, best.victims...)
		g.renew(offers, g.e.slots[best.at.slot])
	}
	slices.SortFunc(victims, byPriority)
	return victims
}

// offers are the cheapest offers to a class: as many as there are members, and
// those of the nodes where they wait.
func (g *gangRoom) offers(c *class) []sacrifice {
	var list, homes []sacrifice
	lowest := g.lowest()
	for _, n := range g.e.slots {
		if n == nil || g.want.Node != "" && g.want.Node != n.spec.ID || g.spent() {
			continue
		}
		home := slices.ContainsFunc(g.asks, func(at int) bool { return g.p.Asks[at].Node == n.spec.ID })
		most := len(n.held)
		if !home && len(list) == len(g.asks) {
			most = len(list[len(list)-1].victims)
		}
		next, found := g.offer(lowest, c, n, most)
		switch {
		case !found:
		case home:
			homes = append(homes, next)
		default:
			at, _ := slices.BinarySearchFunc(list, next, func(a, b sacrifice) int {
				if g.e.cheaper(&a, &b) {
					return -1
				}
				return 1
			})
			list = slices.Insert(list, at, next)
			list = list[:min(len(list), len(g.asks))]
		}
	}
	return append(list, homes...)
}

// accept picks the cheapest offer to a member, of those that still stand where
// the others are.
func (g *gangRoom) accept(at int, offers map[*class][]sacrifice) (best sacrifice, ok bool) {
	c := g.works[at].class
	for _, next := range offers[c] {
		if _, stands := g.fitsWithout(c, g.e.slots[next.at.slot], next.victims...); !stands {
			continue
		}
		next.away = 1
		if g.e.slots[next.at.slot].spec.ID == g.p.Asks[at].Node {
			next.away = 0
		}
		if !ok || g.e.cheaper(&next, &best) {
			best, ok = next, true
		}
	}
	return best, ok
}

// renew has a node of which the state has changed make its offers anew.
func (g *gangRoom) renew(offers map[*class][]sacrifice, n *node) {
	for c, list := range offers {
		list = slices.DeleteFunc(list, func(o sacrifice) bool { return o.at.slot == n.slot })
		if next, found := g.offer(g.lowest(), c, n, len(n.held)); found {
			list = append(list, next)
		}
		offers[c] = list
	}
}
