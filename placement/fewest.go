package placement

import "slices"

// maxSets bounds how many sets of victims are tried on one node.
const maxSets = 2048

// fewest finds, among the placements of a node that may go, in order of
// priority, a set that lets the class fit there: the smallest, of those the one
// whose highest priority is the lowest, then the sum. Only sets up to a size are
// looked for, and once the budget is spent none.
func (s *solver) fewest(c *class, n *node, may []*held, most int) (sacrifice, bool) {
	if len(may) == 0 || !s.suits(c, n) {
		return sacrifice{}, false
	}
	if _, ok := s.fitsWithout(c, n, may...); !ok {
		return sacrifice{}, false
	}
	fits := func(victims []*held) bool {
		_, ok := s.fitsWithout(c, n, victims...)
		return ok
	}
	search := setSearch{solver: s, fits: fits, may: may, left: maxSets}
	if search.upTo(most); !search.found && search.left == 0 && !s.spent() {
		set := pruned(may, fits)
		search.best, search.found = weighed(set), len(set) <= most
	}
	return search.best, search.found
}

// setSearch tries the sets of one size. Sets come in the order of their highest
// member, so that once one is found only those as high can be better.
type setSearch struct {
	*solver
	fits  func(victims []*held) bool
	may   []*held // by priority
	taken []*held // the higher members of the set in hand
	left  int     // sets yet to be tried
	best  sacrifice
	found bool
}

// upTo looks for the best of the smallest sets that do, up to a size.
func (s *setSearch) upTo(most int) {
	for size := 1; size <= min(most, len(s.may)) && !s.found && s.left > 0; size++ {
		s.of(size, 0, len(s.may))
	}
}

// of completes the set in hand by so many more, the highest of them from first
// to below. Of placements that free the same the first are taken: where one is,
// so is the one before it.
func (s *setSearch) of(size, first, below int) {
	if size == 0 {
		s.try()
		return
	}
	for at := max(first, size-1); at < below && s.left > 0; at++ {
		h := s.may[at]
		if len(s.taken) == 0 && s.found && h.workload.spec.Priority > s.best.highest {
			return
		}
		next := 0
		if at > 0 && interchangeable(s.may[at-1], h) {
			if next = at - 1; size == 1 {
				continue
			}
		}
		s.taken = append(s.taken, h)
		s.of(size-1, next, at)
		s.taken = s.taken[:len(s.taken)-1]
	}
}

func (s *setSearch) try() {
	if s.spent() {
		s.left = 0
		return
	}
	if s.left--; !s.fits(s.taken) {
		return
	}
	next := weighed(slices.Clone(s.taken))
	if !s.found || s.e.cheaper(&next, &s.best) {
		s.best, s.found = next, true
	}
}

// pruned gives back, the last first, whatever of a set need not go after all: no
// part of what is left does. As long as all can be spared it gives back more and
// more at once.
func pruned(set []*held, fits func([]*held) bool) []*held {
	for end, most := len(set), 1; end > 0; {
		most = min(most, end)
		without := slices.Concat(set[:end-most], set[end:])
		switch {
		case fits(without):
			set, end, most = without, end-most, 2*most
		case most == 1:
			end--
		default:
			most /= 2
		}
	}
	return set
}

// interchangeable reports whether two placements free the same.
func interchangeable(a, b *held) bool {
	p, q := &a.placement, &b.placement
	return a.workload == b.workload && a.node == b.node && p.Request == q.Request && len(p.Devices)+len(q.Devices)+len(p.Ports)+len(q.Ports) == 0
}

func weighed(victims []*held) sacrifice {
	set := sacrifice{victims: victims}
	for _, v := range victims {
		set.highest = max(set.highest, v.workload.spec.Priority)
		set.sum += v.workload.spec.Priority
	}
	return set
}
