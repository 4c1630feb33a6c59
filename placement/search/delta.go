package search

// shiftDelta is what it costs more that an item goes to another node.
func (s *state) shiftDelta(item, to int) int64 {
	from := int(s.at[item])
	d := s.moveTo(item, to) - s.moveTo(item, from)
	q := s.sizes(item)
	a, b := s.excess[from*s.terms:], s.excess[to*s.terms:]
	a, b, w := a[:len(q)], b[:len(q)], s.weight[:len(q)]
	for t, v := range q {
		d += w[t] * (max(a[t]-v, 0) - max(a[t], 0) + max(b[t]+v, 0) - max(b[t], 0))
	}
	if by := s.awayBy(item, to); by != 0 {
		d += s.groupDelta(int(s.group[item]), by)
	}
	return d
}

// swapDelta is what it costs more that two items exchange nodes.
func (s *state) swapDelta(one, two int) int64 {
	from, to := int(s.at[one]), int(s.at[two])
	d := s.moveTo(one, to) - s.moveTo(one, from) + s.moveTo(two, from) - s.moveTo(two, to)
	q, p := s.sizes(one), s.sizes(two)
	a, b := s.excess[from*s.terms:], s.excess[to*s.terms:]
	a, b, p, w := a[:len(q)], b[:len(q)], p[:len(q)], s.weight[:len(q)]
	for t, v := range q {
		v -= p[t]
		d += w[t] * (max(a[t]-v, 0) - max(a[t], 0) + max(b[t]+v, 0) - max(b[t], 0))
	}
	first, second := s.awayBy(one, to), s.awayBy(two, from)
	switch {
	case first != 0 && second != 0:
		// Two counts at once: the second is told as if the first were made.
		g := int(s.group[one])
		d += s.groupDelta(g, first)
		s.tell(g, first)
		d += s.groupDelta(int(s.group[two]), second)
		s.tell(g, -first)
	case first != 0:
		d += s.groupDelta(int(s.group[one]), first)
	case second != 0:
		d += s.groupDelta(int(s.group[two]), second)
	}
	return d
}

// groupDelta is what it costs more that a group has one more or one fewer item
// away from home.
func (s *state) groupDelta(group int, by int32) int64 {
	now := s.moved[group]
	switch {
	case by > 0 && now == s.most:
		return s.p.Weights.Group
	case by < 0 && now == s.most && s.movedBy[now] == 1:
		return -s.p.Weights.Group
	}
	return 0
}
