package placement

// Nobody is to flee from its own load, which goes along wherever it goes. So what
// moves is rated for each node as if its load was nowhere, its own node included; and
// once it has moved, in the search, its load is where it is.

// haul is a change to the load of a node in a search, to be taken back.
type haul struct {
	node *node
	was  load
}

// worth is what a node is worth to a placement that was struck from it, its load
// left out; nothing where it may not be now.
func (m *mover) worth(h *held, on *node) int64 {
	room := &m.e.rooms[on.slot]
	as := *room
	defer func() { *room = as }()
	room.bear(&on.spec, m.shifted[on].less(m.carries(h, on)))
	found, fits := m.rated(m.classFor(h.workload), on.slot, nil)
	if !fits {
		return 0
	}
	return found.parts.total()
}

// carries is the load of a placement that is on a node: what is measured there, or
// what it brought along in this search.
func (m *mover) carries(h *held, on *node) load {
	if brought, moved := m.loads[h.placement.Ask.ID]; moved {
		return brought
	}
	return m.e.rooms[on.slot].loadOf(&on.spec, &h.placement)
}

// haul has the load of a placement go from one node to another.
func (m *mover) haul(h *held, from, to *node) {
	own := m.carries(h, from)
	m.loads[h.placement.Ask.ID] = own
	m.shift(from, m.shifted[from].less(own))
	m.shift(to, m.shifted[to].less(load{}.less(own)))
}

func (m *mover) shift(n *node, now load) {
	m.hauls = append(m.hauls, haul{n, m.shifted[n]})
	m.bear(n, now)
}

func (m *mover) bear(n *node, now load) {
	m.shifted[n] = now
	m.e.rooms[n.slot].bear(&n.spec, now)
	m.e.touch(n.slot)
}

// haulBack takes back what was hauled since there were so many.
func (m *mover) haulBack(hauls int) {
	for i := len(m.hauls) - 1; i >= hauls; i-- {
		m.bear(m.hauls[i].node, m.hauls[i].was)
	}
	m.hauls = m.hauls[:hauls]
}

func (l load) less(other load) load {
	for i := range l {
		l[i] -= other[i]
	}
	return l
}
