package placement

import (
	"cmp"
	"slices"

	"github.com/psgrid/psg"
)

// fewest finds a gang's victims; none if all that may end would not do, or if
// the budget is spent before there are any. While there is time the set becomes
// better: first none of it could stay where the gang goes, then no part of it does,
// then it is the cheapest that was found.
func (g *gangRoom) fewest() (set []*held) {
	may := g.lesser()
	where := g.whereTheyGo(may)
	if len(where) == 0 {
		return nil
	}
	fits := func(victims []*held) bool { return !g.spent() && g.fits(victims) }
	most := len(may)
	for _, next := range [][]*held{pruned(where, fits), pruned(g.inTurn(), fits)} {
		if next = g.needed(next); len(next) > 0 && (len(set) == 0 || !g.cheaper(set, next)) {
			set, most = next, len(next)
		}
	}
	serves := func(victims []*held) bool { return len(g.needed(victims)) == len(victims) }
	search := setSearch{solver: g.solver, fits: serves, may: may, left: maxSets}
	if search.upTo(most); search.found && (len(set) == 0 || g.cheaper(search.best.victims, set)) {
		set = search.best.victims
	}
	return set
}

func (g *gangRoom) cheaper(one, other []*held) bool {
	a, b := weighed(one), weighed(other)
	return g.e.cheaper(&a, &b)
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

// firstGone is how many of the lowest in priority are taken away at first to see
// whether the gang fits then.
const firstGone = 256

// whereTheyGo are, of those whose end together lets all fit, the ones on the
// nodes where the gang goes then that can't stay beside it; none if it does not fit
// even then. Of very many not all are taken away if half of them do.
func (g *gangRoom) whereTheyGo(may []*held) []*held {
	mark := len(g.journal)
	var gone, leave []*held
	for i, most := 0, firstGone; i < len(may); i++ {
		if g.strike(may[i]); i+1 < min(most, len(may)) && !g.spent() {
			continue
		}
		if g.place(false) {
			gone = may[:i+1]
			break
		}
		if most *= 2; g.spent() {
			break
		}
	}
	goals := g.goals()
	leave = g.inTheWay(gone, goals)
	g.takeBack(mark)
	if g.fits(leave) {
		return leave
	}
	leave = slices.DeleteFunc(slices.Clone(gone), func(h *held) bool { return !goals[h.placement.Node] })
	if !g.fits(leave) {
		return nil
	}
	return leave
}

// inTheWay are those that have no room any more on some nodes, where the others
// have it again, the highest in priority before the rest.
func (g *gangRoom) inTheWay(gone []*held, on map[psg.NodeID]bool) []*held {
	var leave []*held
	for _, h := range slices.Backward(gone) {
		if !on[h.placement.Node] {
			continue
		}
		n := g.e.nodes[h.placement.Node]
		if _, stays := g.e.fitsAt(g.e.classUnder(h.workload, g.p.Rulings[h.workload.id]), n.slot); stays && h.node == nil {
			g.e.book(h, n)
			g.journal = append(g.journal, entry{held: h})
		} else {
			leave = append(leave, h)
		}
	}
	slices.Reverse(leave)
	return leave
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
		if g.spent() {
			return nil
		}
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
