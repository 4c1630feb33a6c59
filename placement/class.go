package placement

import (
	"slices"

	"github.com/psgrid/psg"
)

// class is a shape under one judgement: the workloads for which every node
// rates the same. Once in use it keeps the rates of all nodes and their order,
// and catches up with what changed when it is next asked.
type class struct {
	shape   *shape
	judged  *judgement
	users   int    // workloads
	used    uint64 // cycle
	asked   int    // times a candidate was wanted before there was an index
	indexed bool
	read    int        // position in Engine.changes up to which scores are current
	respecs uint64     // of Engine.respecs when cells and barred were made
	barred  psg.Bitmap // slots whose node can't be it, whatever it holds
	scores  []int64
	stale   psg.Bitmap // slots that changed: their score is no more than a ceiling
	cells   []cell
	others  []int   // by counter: values no spread target names; nil until counted
	cellOf  []place // by slot, where there is more than one cell
}

// classOf finds or makes the class of a workload under a judgement.
func (e *Engine) classOf(w *workload, j *judgement) *class {
	s := e.shapeOf(w)
	s.used = e.cycle
	if w.class != nil && w.class.judged == j {
		return w.class
	}
	c, ok := s.classes[j]
	if !ok {
		c = e.succeed(w.class, j)
		if c == nil {
			c = &class{shape: s, judged: j}
		}
		s.classes[j] = c
	}
	if w.class != c {
		if w.class != nil {
			w.class.users--
		}
		c.users++
		w.class = c
	}
	return c
}

// succeed turns a class that only one workload uses into the class under the
// next judgement, or copies it for that; then only the slots that are judged
// otherwise need rating.
func (e *Engine) succeed(old *class, j *judgement) *class {
	if old == nil || !old.indexed {
		return nil
	}
	next := old
	if old.users == 1 {
		delete(old.shape.classes, old.judged)
	} else {
		if !e.mayIndex() {
			return nil
		}
		next = old.clone()
		e.indexed++
	}
	before := next.judged
	next.judged = j
	if !e.catchUp(next) {
		e.rebuild(next)
		return next
	}
	for slot := range e.slots {
		if before.denied.Has(slot) != j.denied.Has(slot) || before.at(slot) != j.at(slot) {
			next.bar(e, int32(slot))
			next.refresh(e, int32(slot))
		}
	}
	return next
}

// at is the policy score of a slot.
func (j *judgement) at(slot int) int32 {
	if slot >= len(j.points) {
		return 0
	}
	return j.points[slot]
}

func (c *class) clone() *class {
	d := *c
	d.users = 0
	d.scores = slices.Clone(c.scores)
	d.barred = slices.Clone(c.barred)
	d.stale = slices.Clone(c.stale)
	d.cellOf = slices.Clone(c.cellOf)
	d.cells = slices.Clone(c.cells)
	for i := range d.cells {
		d.cells[i].tree.winners = slices.Clone(c.cells[i].tree.winners)
	}
	return &d
}

// mayIndex reports whether memory for one more index is within bounds.
func (e *Engine) mayIndex() bool {
	const bytesPerSlot = 8 + 2*4*2
	return (e.indexed+1)*len(e.slots)*bytesPerSlot <= e.cfg.IndexMB<<20
}

// ready brings the class's candidates up to date, and reports whether it has
// them in order; it has not on its first use, or where memory is short.
func (e *Engine) ready(c *class) bool {
	c.used = e.cycle
	if !c.indexed {
		if c.asked++; c.asked < 2 || !e.mayIndex() {
			return false
		}
		c.indexed = true
		e.indexed++
		e.rebuild(c)
		return true
	}
	if !e.catchUp(c) {
		e.rebuild(c)
	}
	return true
}

// catchUp takes in the slots that changed since the class last looked; it reports
// false where that takes a rebuild.
func (e *Engine) catchUp(c *class) bool {
	changed, kept := e.changes.since(c.read, len(e.slots))
	respecced := c.respecs != e.respecs
	if respecced && (!kept || c.cellOf != nil) || !c.grow(len(e.slots)) {
		return false
	}
	c.read, c.respecs = e.changes.position(), e.respecs
	switch {
	case !kept:
		c.unsettleAll(e)
	case respecced:
		c.rejudge(e, changed)
	default:
		e.sweep++
		for _, slot := range changed {
			if e.marks[slot] != e.sweep {
				e.marks[slot] = e.sweep
				c.unsettle(e, slot)
			}
		}
	}
	return true
}

// rejudge rates slots anew of which the nodes may be others than before.
func (c *class) rejudge(e *Engine, changed []int32) {
	e.sweep++
	for _, slot := range changed {
		if e.marks[slot] == e.sweep {
			continue
		}
		e.marks[slot] = e.sweep
		c.bar(e, slot)
		if !c.barred.Has(int(slot)) || c.scores[slot] != unfit {
			c.refresh(e, slot)
		}
	}
}

// bar notes whether a slot's node can be it at all.
func (c *class) bar(e *Engine, slot int32) {
	if c.judged.denied.Has(int(slot)) || !c.shape.filter.on(e, slot).ok {
		c.barred.Set(int(slot))
	} else {
		c.barred.Clear(int(slot))
	}
}

// grow makes room for slots that are new; it reports false where there is none.
func (c *class) grow(slots int) bool {
	for len(c.scores) < slots {
		c.scores = append(c.scores, unfit)
	}
	for 64*len(c.barred) < slots {
		c.barred, c.stale = append(c.barred, 0), append(c.stale, 0)
	}
	return c.cellOf != nil || c.cells[0].tree.size >= slots
}

// refresh rates one slot anew.
func (c *class) refresh(e *Engine, slot int32) {
	c.stale.Clear(int(slot))
	c.set(e, slot, e.scoreOf(c, slot))
}

// set notes a slot's score.
func (c *class) set(e *Engine, slot int32, score int64) {
	if score == c.scores[slot] {
		return
	}
	c.scores[slot] = score
	if at := c.at(slot); at.cell >= 0 {
		c.cells[at.cell].tree.update(int(at.leaf), slot, c.scores, e.ranks)
	}
}

// scoreOf is a slot's rate as one number.
func (e *Engine) scoreOf(c *class, slot int32) int64 {
	var p parts
	if e.slots[slot] == nil || !e.rate(c.shape, c.judged, slot, &p) {
		return unfit
	}
	return p.total()
}

// rebuild rates every slot.
func (e *Engine) rebuild(c *class) {
	n := len(e.slots)
	c.scores = slices.Grow(c.scores[:0], n)[:n]
	c.barred, c.stale = psg.NewBitmap(n), psg.NewBitmap(n)
	for slot := range n {
		c.bar(e, int32(slot))
		c.scores[slot] = e.scoreOf(c, int32(slot))
	}
	c.read, c.respecs = e.changes.position(), e.respecs
	if !c.shape.counts() {
		c.cellOf = nil
		if len(c.cells) != 1 || c.cells[0].tree.size < n {
			c.cells = []cell{{tree: newTree(n, nil)}}
		}
	} else {
		c.divide(e)
	}
	for i := range c.cells {
		t := &c.cells[i].tree
		leaves := n
		if t.members != nil {
			leaves = len(t.members)
		}
		t.build(leaves, c.scores, e.ranks)
	}
}
