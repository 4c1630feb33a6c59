package placement

// candidate is a node that fits, and how good it is.
type candidate struct {
	slot  int32
	parts parts
}

// best finds the class's best node: the highest score, of equal ones the first
// by ID.
func (e *Engine) best(c *class) (candidate, bool) {
	if e.totalReached(c.shape) >= 0 {
		return candidate{}, false
	}
	slot, points := int32(-1), int64(0)
	switch {
	case e.ready(c):
		slot, points = e.topCell(c)
	case c.shape.counts():
		e.rebuild(c)
		slot, points = e.topCell(c)
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
func (e *Engine) topCell(c *class) (best int32, points int64) {
	best = -1
	for i := range c.cells {
		top := c.top(e, &c.cells[i].tree)
		if top < 0 {
			continue
		}
		more, open := c.cellRate(&c.cells[i], e)
		if !open {
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
func (e *Engine) fitsAt(c *class, slot int32) (candidate, bool) {
	found := candidate{slot: slot}
	if e.slots[slot] == nil || e.totalReached(c.shape) >= 0 || !e.rate(c.shape, c.judged, slot, &found.parts) {
		return found, false
	}
	if !c.shape.counts() {
		return found, true
	}
	o := objections{mode: verdictOnly}
	c.shape.own.objectCell(e.slots[slot], &o)
	return found, !o.raised
}

// totalReached returns the first limit that lets no more instances of a shape
// into the cluster, or -1.
func (e *Engine) totalReached(s *shape) int {
	for _, i := range s.limits {
		if most := e.cfg.Limits[i].Total; most > 0 && e.limitTotals[i] >= most {
			return i
		}
	}
	return -1
}
