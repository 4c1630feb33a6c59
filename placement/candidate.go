package placement

// candidate is a node that fits, and how good it is.
type candidate struct {
	slot  int32
	parts parts
}

// best finds the class's best node: the highest score, of equal ones the first
// by ID.
func (e *Engine) best(c *class) (candidate, bool) { return e.bestBeside(c, nil) }

// bestBeside is best while one of the class on another node, which is not in the
// book any more, has not left it; nil is none. It has no room there, but it counts.
func (e *Engine) bestBeside(c *class, leaving *node) (candidate, bool) {
	if e.totalReached(c.shape, leaving) >= 0 {
		return candidate{}, false
	}
	slot, points := int32(-1), int64(0)
	switch {
	case e.ready(c):
		slot, points = e.topCell(c, leaving)
	case c.shape.counts():
		e.rebuild(c)
		slot, points = e.topCell(c, leaving)
		c.scores, c.stale, c.cells, c.cellOf = nil, nil, nil, nil
	default:
		slot = e.scan(c)
	}
	if slot < 0 {
		return candidate{}, false
	}
	found := candidate{slot: slot}
	e.rate(c.shape, c.judged, slot, &found.parts)
	found.parts[partSpread] = points
	return found, true
}

// topCell picks among the cells' best nodes, and returns what the spreads add.
func (e *Engine) topCell(c *class, leaving *node) (best int32, points int64) {
	best = -1
	for i := range c.cells {
		top := c.top(e, &c.cells[i].tree)
		if top < 0 {
			continue
		}
		more, open := c.cellRate(&c.cells[i], e)
		if !open || !c.bears(c.cells[i].values, leaving) {
			continue
		}
		if best >= 0 {
			was, is := c.scores[best]+points, c.scores[top]+more
			if is < was || is == was && e.ranks[top] > e.ranks[best] {
				continue
			}
		}
		best, points = top, more
	}
	return best, points
}

// scan rates every node once, for a class that keeps no order.
func (e *Engine) scan(c *class) int32 {
	best, score := int32(-1), int64(0)
	for slot := range int32(len(e.slots)) {
		is := e.scoreOf(c, slot)
		if is == unfit || best >= 0 && (is < score || is == score && e.ranks[slot] > e.ranks[best]) {
			continue
		}
		best, score = slot, is
	}
	return best
}

// fitsAt rates one given node for a workload.
func (e *Engine) fitsAt(c *class, slot int32) (candidate, bool) { return e.fitsBeside(c, slot, nil) }

// fitsBeside is fitsAt while one of the class on another node has not left it: see
// bestBeside.
func (e *Engine) fitsBeside(c *class, slot int32, leaving *node) (candidate, bool) {
	found := candidate{slot: slot}
	if e.slots[slot] == nil || e.totalReached(c.shape, leaving) >= 0 || !e.rate(c.shape, c.judged, slot, &found.parts) {
		return found, false
	}
	if !c.shape.counts() {
		return found, true
	}
	o := objections{mode: verdictOnly}
	c.shape.own.objectCell(e.slots[slot], &o)
	if !o.raised && leaving != nil {
		values, _ := cellValues(c.shape.own, e.slots[slot])
		return found, c.bears(values, leaving)
	}
	return found, !o.raised
}

// totalReached returns the first limit that lets no more instances of a shape
// into the cluster, or -1. One that leaves a node is still in it.
func (e *Engine) totalReached(s *shape, leaving *node) int {
	for _, i := range s.limits {
		have := e.limitTotals[i]
		if leaving != nil {
			have++
		}
		if most := e.cfg.Limits[i].Total; most > 0 && have >= most {
			return i
		}
	}
	return -1
}
