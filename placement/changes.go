package placement

// changes is the sequence of slots that changed. Each class remembers how far
// it has read, and catches up when it is next asked for a candidate; one that
// has fallen too far behind looks at every slot instead.
type changes struct {
	dropped int // entries no longer kept
	log     []int32
}

// position is where a reader that has seen everything stands.
func (c *changes) position() int { return c.dropped + len(c.log) }

// since returns what changed after a position; ok is false where that is no
// longer kept, or is more than looking at every slot would be.
func (c *changes) since(position, slots int) (changed []int32, ok bool) {
	at := position - c.dropped
	if at < 0 || len(c.log)-at > 2*slots {
		return nil, false
	}
	return c.log[at:], true
}

// touch notes that what a slot offers may have changed.
func (e *Engine) touch(slot int32) {
	c := &e.changes
	e.worths[slot] = -1
	if e.trial {
		return // what is tried is taken back before anyone reads
	}
	c.log = append(c.log, slot)
	if most := 4*len(e.slots) + 4096; len(c.log) > most {
		half := len(c.log) / 2
		c.log = append(c.log[:0], c.log[half:]...)
		c.dropped += half
	}
}
