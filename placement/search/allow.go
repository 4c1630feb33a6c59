package search

// allowsShift reports whether no rule keeps an item from going to another node.
func (s *state) allowsShift(item, to int) bool {
	return s.fits(item, to) && s.allowsGroup(item, to)
}

// fits reports whether a node has room for an item.
func (s *state) fits(item, node int) bool {
	room, need := s.room[node*s.resources:], s.holds(item, node)
	room = room[:len(need)]
	for r, q := range need {
		if q > room[r] {
			return false
		}
	}
	return true
}

// allowsGroup reports whether the rules of groups let an item go to another
// node.
func (s *state) allowsGroup(item, to int) bool {
	g, from := int(s.group[item]), int(s.at[item])
	if s.rules[g].apart && s.onNode[g*s.nodes+to] > 0 {
		return false
	}
	return s.allowsSpread(g, from, to) && s.allowsHood(g, from, to)
}

// overfull reports whether a node holds more than it has room for.
func (s *state) overfull(node int) bool {
	for _, free := range s.room[node*s.resources : (node+1)*s.resources] {
		if free < 0 {
			return true
		}
	}
	return false
}

// allowsSwap reports whether no rule keeps two items on different nodes from
// exchanging them.
func (s *state) allowsSwap(one, two int) bool {
	from, to := int(s.at[one]), int(s.at[two])
	if !s.exchanges(from, one, two) || !s.exchanges(to, two, one) {
		return false
	}
	g, h := int(s.group[one]), int(s.group[two])
	if g == h {
		return true // the group stays where it is
	}
	if s.rules[g].apart && s.onNode[g*s.nodes+to] > 0 || s.rules[h].apart && s.onNode[h*s.nodes+from] > 0 {
		return false
	}
	if !s.allowsSpread(g, from, to) || !s.allowsSpread(h, to, from) {
		return false
	}
	if s.hood[from] == s.hood[to] {
		return true
	}
	// Each may need the other gone or there: judge one with the other moved.
	s.moveHood(h, to, from)
	ok := s.allowsHood(g, from, to)
	s.moveHood(h, from, to)
	s.moveHood(g, from, to)
	ok = ok && s.allowsHood(h, to, from)
	s.moveHood(g, to, from)
	return ok
}

// exchanges reports whether a node has room for one item in another's stead.
func (s *state) exchanges(node, out, in int) bool {
	room, need, freed := s.room[node*s.resources:], s.holds(in, node), s.holds(out, node)
	room, freed = room[:len(need)], freed[:len(need)]
	for r, q := range need {
		if q > room[r]+freed[r] {
			return false
		}
	}
	return true
}

// allowsSpread reports whether a group is still in enough locations.
func (s *state) allowsSpread(group, from, to int) bool {
	least, out, in := s.rules[group].least, s.loc[from], s.loc[to]
	if out == in || least <= 1 || s.spread[group] > least {
		return true
	}
	row := s.inLoc[group*s.locs : (group+1)*s.locs]
	return row[out] > 1 || row[in] == 0
}

// allowsHood reports whether a group finds what it must be near to, and leaves
// behind nobody who must be near to it.
func (s *state) allowsHood(group, from, to int) bool {
	out, in := int(s.hood[from]), int(s.hood[to])
	if out == in {
		return true
	}
	for _, near := range s.rules[group].near {
		if s.inHood[int(near)*s.hoods+in] == 0 {
			return false
		}
	}
	if s.inHood[group*s.hoods+out] > 1 {
		return true
	}
	for _, other := range s.rules[group].nearThis {
		if s.inHood[int(other)*s.hoods+out] > 0 {
			return false
		}
	}
	return true
}

// moveHood counts one item of a group elsewhere.
func (s *state) moveHood(group, from, to int) {
	s.inHood[group*s.hoods+int(s.hood[from])]--
	s.inHood[group*s.hoods+int(s.hood[to])]++
}
