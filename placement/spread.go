package placement

// cellRate says whether one more instance may go to the nodes of a cell, and
// what the spreads add to the score there.
func (c *class) cellRate(at *cell, e *Engine) (points int64, open bool) {
	if !c.shape.counts() {
		return 0, true
	}
	w := c.shape.own
	weights := int64(0)
	for _, s := range w.spec.Spreads {
		weights += int64(max(0, s.Weight))
	}
	for i := range w.tally.counters {
		k := &w.tally.counters[i]
		value := at.values[i]
		switch {
		case k.spread != nil:
			if weights > 0 {
				points += e.cfg.Weights.Spread * c.spreadPoints(i, value) * int64(max(0, k.spread.Weight)) / weights / 1000
			}
		case k.domain:
			if !k.reaches(value.text, w.spec.Count, w.spec.MinDomains) {
				return 0, false
			}
		case !k.admits(value):
			return 0, false
		}
	}
	return points, true
}

// bears reports whether one more instance may be where nodes count under such
// values as long as one that is not in the book has not left its node, if there is
// such.
func (c *class) bears(values []cellValue, leaving *node) bool {
	if leaving == nil || !c.shape.counts() {
		return true
	}
	w := c.shape.own
	for i := range w.tally.counters {
		k := &w.tally.counters[i]
		from, counts := k.value(leaving)
		if !counts || k.spread != nil {
			continue
		}
		bump(k.counts, from, 1)
		open := k.domain && k.reaches(values[i].text, w.spec.Count, w.spec.MinDomains) || !k.domain && k.admits(values[i])
		bump(k.counts, from, -1)
		if !open {
			return false
		}
	}
	return true
}

// spreadAt is what the spreads add on the node in a slot.
func (e *Engine) spreadAt(c *class, slot int32) int64 {
	values, _ := cellValues(c.shape.own, e.slots[slot])
	points, _ := c.cellRate(&cell{values: values}, e)
	return points
}

// admits reports whether distinct_property allows one more on a value. A node
// without the property is never allowed.
func (k *counter) admits(v cellValue) bool {
	return v.ok && !k.invalid && uint64(k.counts[v.text]) < k.most
}

// reaches reports whether the failure-domain minimum can still be met once one
// more instance is in a domain: those that come after must suffice for the
// domains that are missing.
func (k *counter) reaches(domain string, count, minimum int) bool {
	placed, domains := 1, len(k.counts)
	for _, n := range k.counts {
		placed += n
	}
	if k.counts[domain] == 0 {
		domains++
	}
	return domains+max(0, count-placed) >= minimum
}

const (
	mostInstances = 1 << 30 // of one workload, as far as spreads reckon
	leastStep     = 300     // points per instance: more than packing and fragmentation together can outweigh
	missingValue  = -1000
)

// spreadPoints is how far a value is from its wanted share once one more
// instance is there: per instance the fraction of the share it is, but no less
// than leastStep, so that even large workloads spread exactly. Values without a
// target divide evenly what the targets leave.
func (c *class) spreadPoints(counter int, v cellValue) int64 {
	if !v.ok {
		return missingValue
	}
	k := &c.shape.own.tally.counters[counter]
	wanted := c.wanted(counter, v.text)
	step := int64(1000)
	if wanted > 0 {
		step = max(leastStep, min(1000, 1_000_000/wanted))
	}
	lacking := wanted - 1000*int64(k.counts[v.text]+1)
	return lacking * step / 1000
}

// wanted is a value's share of the instances, in thousandths of an instance.
func (c *class) wanted(counter int, value string) int64 {
	w := c.shape.own
	count := int64(max(0, min(mostInstances, w.spec.Count)))
	left := int64(100)
	for _, t := range w.tally.counters[counter].spread.Targets {
		percent := int64(max(0, min(100, t.Percent)))
		if t.Value == value {
			return percent * count * 10
		}
		left = max(0, left-percent)
	}
	return left * count * 10 / int64(max(1, c.untargeted(counter)))
}

// untargeted counts the values that nodes have and no target names.
func (c *class) untargeted(counter int) int {
	if c.others == nil {
		return 0
	}
	return c.others[counter]
}

func (c *class) countUntargeted(counter int) int {
	values := make(map[string]bool)
	for i := range c.cells {
		if v := c.cells[i].values[counter]; v.ok {
			values[v.text] = true
		}
	}
	if spread := c.shape.own.tally.counters[counter].spread; spread != nil {
		for _, t := range spread.Targets {
			delete(values, t.Value)
		}
	}
	return len(values)
}

// objectCell raises what the tally objects to on a node.
func (w *workload) objectCell(n *node, o *objections) {
	for i := range w.tally.counters {
		k := &w.tally.counters[i]
		value, ok := k.value(n)
		switch {
		case k.domain:
			if !k.reaches(value, w.spec.Count, w.spec.MinDomains) {
				o.short("spread", "fewer failure domains than the minimum would be reached", 1000,
					": %d wanted, %s has an instance already", w.spec.MinDomains, quote(value))
			}
		case k.spread != nil:
		case k.invalid:
			o.raise("constraint", "%s: the count is not a number", k.distinct)
		case !ok:
			o.seen("constraint", k.distinct, ": the property is not set here")
		case uint64(k.counts[value]) >= k.most:
			o.short("constraint", k.distinct, 1000, ": %s is used by %d already", quote(value), k.counts[value])
		}
	}
}
