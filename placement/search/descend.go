package search

// descend makes shifts, of several items where they depend on each other, and swaps
// that pay until none does or the budget is gone.
func (s *searcher) descend() {
	for s.used() < 1 {
		if !s.descendOnce() {
			return
		}
	}
}

// descendOnce tries every shift and every swap once, and reports whether one paid.
func (s *searcher) descendOnce() bool {
	paid := false
	for item := range s.items {
		if s.used() >= 1 {
			return paid
		}
		for to := range s.nodes {
			s.steps++
			switch {
			case int(s.at[item]) == to:
			case !s.allowsShift(item, to):
				paid = s.rules[s.group[item]].dependent() && s.together(item, to, -1) || paid
			default:
				if d := s.shiftDelta(item, to); d < 0 {
					s.shift(item, to, d)
					paid = true
				}
			}
		}
		for other := range item {
			s.steps++
			if s.at[item] == s.at[other] || !s.allowsSwap(item, other) {
				continue
			}
			if d := s.swapDelta(item, other); d < 0 {
				s.swap(item, other, d)
				paid = true
			}
		}
	}
	return paid
}
