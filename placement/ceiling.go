package placement

import (
	"math/bits"
)

// A slot that changed need not be rated again by every class that looks: most
// could not become a class's best node however well they came out. Where the most
// that a slot's score can be, its ceiling, is below the best one's, the class
// notes the ceiling in place of the score, and leaves it there, whatever else
// changes, until the slot comes to the top. Since a score is never above its
// ceiling, and ties break by rank for both, what is found is the same.

// ceiling is the most that an instance's score can be on the node in a slot.
func (e *Engine) ceiling(c *class, slot int32) int64 {
	v := c.shape.filter.on(e, slot)
	most := int64(c.judged.at(int(slot))) + e.cfg.Weights.Affinity*int64(v.affinity)/1000
	if e.rooms[slot].cards {
		return most + c.shape.ceiling
	}
	return most + e.cfg.Weights.Packing
}

// cardCeiling is the most that a node's cards can add to a shape's score: nothing
// of their worth lost but what the instance itself uses, see Engine.lost.
func (e *Engine) cardCeiling(s *shape) int64 {
	w := &e.cfg.Weights
	used, drawn := int64(0), false
	for i := range s.devices {
		ask := &s.devices[i]
		each := ask.MilliGPU
		if ask.Profile != "" || wantsWhole(ask) {
			each = wholeCard
		}
		used += each * int64(ask.Count)
		drawn = drawn || len(ask.Affinities) > 0
	}
	most := w.Fragmentation * used / wholeCard
	if drawn {
		most += w.Affinity
	}
	if s.numa == "prefer" {
		most += w.NUMA
	}
	return most
}

// unsettle notes that a slot changed.
func (c *class) unsettle(e *Engine, slot int32) {
	if c.stale.Has(int(slot)) || c.barred.Has(int(slot)) {
		return
	}
	at := c.at(slot)
	if at.cell < 0 {
		return
	}
	most := e.ceiling(c, slot)
	if top := c.cells[at.cell].tree.top(); top < 0 || most >= c.scores[top] {
		c.refresh(e, slot) // it would come to the top at once
		return
	}
	c.stale.Set(int(slot))
	c.set(e, slot, most)
}

// unsettleAll notes that any slot may have changed.
func (c *class) unsettleAll(e *Engine) {
	for i := range c.stale {
		for word := ^(c.stale[i] | c.barred[i]); word != 0; word &= word - 1 {
			slot := i<<6 + bits.TrailingZeros64(word)
			if slot >= len(c.scores) {
				return
			}
			c.unsettle(e, int32(slot))
		}
	}
}

// top is the best slot of a tree, or -1: those that come to the top with no more
// than a ceiling are rated first.
func (c *class) top(e *Engine, t *tree) int32 {
	for {
		top := t.top()
		if top < 0 || !c.stale.Has(int(top)) {
			return top
		}
		c.refresh(e, top)
	}
}
