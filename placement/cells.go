package placement

import (
	"fmt"
	"strings"
)

// cell is the nodes that a shape's tally counts alike: with the same value of
// each counted attribute. Without a tally there is one.
type cell struct {
	values []cellValue // by counter
	tree   tree
}

type cellValue struct {
	text string
	ok   bool
}

// place is where a slot stands in the cells.
type place struct{ cell, leaf int32 }

// at is where a slot stands.
func (c *class) at(slot int32) place {
	if c.cellOf == nil {
		return place{0, slot}
	}
	return c.cellOf[slot]
}

// divide groups the slots into cells by what the tally counts.
func (c *class) divide(e *Engine) {
	c.cells = nil
	c.cellOf = make([]place, len(e.slots))
	byKey := make(map[string]int32)
	var members [][]int32
	for slot, n := range e.slots {
		c.cellOf[slot] = place{-1, 0}
		if n == nil {
			continue
		}
		values, key := cellValues(c.shape.own, n)
		at, ok := byKey[key]
		if !ok {
			at = int32(len(c.cells))
			byKey[key] = at
			c.cells = append(c.cells, cell{values: values})
			members = append(members, nil)
		}
		c.cellOf[slot] = place{at, int32(len(members[at]))}
		members[at] = append(members[at], int32(slot))
	}
	for i := range c.cells {
		c.cells[i].tree = newTree(len(members[i]), members[i])
	}
	c.others = make([]int, len(c.shape.own.tally.counters))
	for i := range c.others {
		c.others[i] = c.countUntargeted(i)
	}
}

// cellValues are the values a node counts under, and one key for all.
func cellValues(w *workload, n *node) ([]cellValue, string) {
	values := make([]cellValue, len(w.tally.counters))
	var key strings.Builder
	for i := range w.tally.counters {
		text, ok := w.tally.counters[i].value(n)
		values[i] = cellValue{text, ok}
		fmt.Fprintf(&key, "%t %d %s", ok, len(text), text)
	}
	return values, key.String()
}
