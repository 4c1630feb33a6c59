package search

import "slices"

// state is an assignment with everything that makes its changes cheap to judge.
type state struct {
	*model
	at       []int32 // by item
	cost     int64
	excess   []int64 // node x term
	room     []int64 // node x resource: capacity not held
	onNode   []int32 // group x node: items there
	inLoc    []int32 // group x location
	inHood   []int32 // group x neighbourhood
	spread   []int32 // by group: locations it is in
	moved    []int32 // by group: items away from home
	movedBy  []int32 // by number of items moved: groups
	most     int32   // items moved in the group that has most
	occupant [][]int32
	place    []int32 // by item: where in its node's occupants
}

// newState starts with every item at home.
func newState(m *model) *state {
	groups := len(m.rules)
	s := &state{
		model: m, at: make([]int32, m.items), excess: make([]int64, m.nodes*m.terms), room: make([]int64, m.nodes*m.resources),
		onNode: make([]int32, groups*m.nodes), inLoc: make([]int32, groups*m.locs), inHood: make([]int32, groups*m.hoods),
		spread: make([]int32, groups), moved: make([]int32, groups), movedBy: make([]int32, m.items+1),
		occupant: make([][]int32, m.nodes), place: make([]int32, m.items),
	}
	s.movedBy[0] = int32(groups)
	for i, n := range m.p.Nodes {
		for r, c := range n.Capacity {
			s.excess[i*m.terms+r] = -n.Safe[r]
			s.room[i*m.resources+r] = c
		}
		for b, balance := range m.p.Balances {
			s.excess[i*m.terms+m.resources+b] = balance.Target*n.Capacity[balance.First] - n.Capacity[balance.Second]
		}
	}
	for item, node := range m.home {
		s.enter(item, int(node))
		for r, q := range m.p.Items[item].Need {
			// What is transient is held at home for good.
			s.room[int(node)*m.resources+r] -= q - m.lasting[item*m.resources+r]
		}
	}
	s.cost = m.p.Cost(m.p.Initial).Total()
	return s
}

// enter puts an item that is nowhere on a node.
func (s *state) enter(item, node int) {
	s.at[item] = int32(node)
	s.place[item] = int32(len(s.occupant[node]))
	s.occupant[node] = append(s.occupant[node], int32(item))
	add(s.excess[node*s.terms:], s.sizes(item), 1)
	add(s.room[node*s.resources:], s.holds(item, node), -1)
	s.count(item, node, 1)
}

// leave takes an item off its node.
func (s *state) leave(item int) {
	node := int(s.at[item])
	list := s.occupant[node]
	last := list[len(list)-1]
	list[s.place[item]] = last
	s.place[last] = s.place[item]
	s.occupant[node] = list[:len(list)-1]
	add(s.excess[node*s.terms:], s.sizes(item), -1)
	add(s.room[node*s.resources:], s.holds(item, node), 1)
	s.count(item, node, -1)
}

// count keeps a group's numbers when an item of it comes or goes.
func (s *state) count(item, node int, by int32) {
	g := int(s.group[item])
	loc := g*s.locs + int(s.loc[node])
	before := s.inLoc[loc] > 0
	s.onNode[g*s.nodes+node] += by
	s.inLoc[loc] += by
	s.inHood[g*s.hoods+int(s.hood[node])] += by
	if after := s.inLoc[loc] > 0; after != before {
		s.spread[g] += by
	}
}

// shift moves an item; delta is what shiftDelta said.
func (s *state) shift(item, to int, delta int64) {
	s.retell(item, to)
	s.leave(item)
	s.enter(item, to)
	s.cost += delta
}

// swap exchanges two items' nodes; delta is what swapDelta said.
func (s *state) swap(a, b int, delta int64) {
	from, to := int(s.at[a]), int(s.at[b])
	s.retell(a, to)
	s.retell(b, from)
	s.leave(a)
	s.leave(b)
	s.enter(a, to)
	s.enter(b, from)
	s.cost += delta
}

// retell counts a group's moved items when one of them goes to a node, before
// it does.
func (s *state) retell(item, to int) {
	if by := s.awayBy(item, to); by != 0 {
		s.tell(int(s.group[item]), by)
	}
}

// awayBy is the change in the number of items away from home.
func (s *state) awayBy(item, to int) int32 {
	home := s.home[item]
	switch {
	case s.at[item] == home && int32(to) != home:
		return 1
	case s.at[item] != home && int32(to) == home:
		return -1
	}
	return 0
}

func (s *state) tell(group int, by int32) {
	s.movedBy[s.moved[group]]--
	s.moved[group] += by
	s.movedBy[s.moved[group]]++
	s.most = max(s.most, s.moved[group])
	for s.most > 0 && s.movedBy[s.most] == 0 {
		s.most--
	}
}

// assignment is the nodes of the items.
func (s *state) assignment() []int {
	at := make([]int, s.items)
	for i, node := range s.at {
		at[i] = int(node)
	}
	return at
}

// restore takes every item to where another assignment has it.
func (s *state) restore(at []int32, cost int64) {
	if slices.Equal(s.at, at) {
		return
	}
	for item, to := range at {
		if s.at[item] != to {
			s.shift(item, int(to), 0)
		}
	}
	s.cost = cost
}

// add adds or takes away a row.
func add(row, amounts []int64, sign int64) {
	for i, v := range amounts {
		row[i] += sign * v
	}
}
