package search

// maxTogether bounds the items that move to another neighbourhood together.
const maxTogether = 8

// together moves an item to another neighbourhood, and with it what must be near it
// there, or near what is left here no more: groups that need each other would else
// stay where they are for good. What is then not allowed or not bearable is taken
// back; it reports whether it was not.
func (s *searcher) together(item, to int, bearable int64) bool {
	s.made = s.made[:0]
	before := s.cost
	if !s.bring(item, to) || s.cost-before > bearable {
		s.takeBack()
		return false
	}
	return true
}

// bring moves an item, and then whoever must come along. It reports whether all
// could; if not, something is amiss.
func (s *searcher) bring(item, to int) bool {
	g, from := int(s.group[item]), int(s.at[item])
	s.steps++
	if len(s.made) == maxTogether || !s.fits(item, to) || s.rules[g].apart && s.onNode[g*s.nodes+to] > 0 || !s.allowsSpread(g, from, to) {
		return false
	}
	s.try(item, to, s.shiftDelta(item, to))
	out, in := int(s.hood[from]), int(s.hood[to])
	for _, near := range s.rules[g].near {
		for s.inHood[int(near)*s.hoods+in] == 0 {
			if !s.bringOne(int(near), out, in) {
				return false
			}
		}
	}
	for _, other := range s.rules[g].nearThis {
		for s.inHood[g*s.hoods+out] == 0 && s.inHood[int(other)*s.hoods+out] > 0 {
			if !s.bringOne(int(other), out, in) {
				return false
			}
		}
	}
	return true
}

// bringOne brings some item of a group from one neighbourhood to another.
func (s *searcher) bringOne(group, out, in int) bool {
	members, nodes := s.members[group], s.residents[in]
	for first, i := s.random.below(len(members)+1), 0; i < len(members); i++ {
		item := int(members[(first+i)%len(members)])
		if int(s.hood[s.at[item]]) == out {
			return s.bring(item, int(nodes[s.random.below(len(nodes))]))
		}
	}
	return false
}
