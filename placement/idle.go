package placement

import (
	"maps"
	"slices"
)

// What has not been used for idleCycles is dropped. It is looked for every so many
// cycles, and where so many judgements came in since the last time.
const (
	idleCycles = 4096
	sweepEvery = 64
	sweepAfter = 512
)

// release takes a workload out of its class and shape.
func (e *Engine) release(w *workload) {
	if w.class != nil {
		w.class.users--
		w.class, w.ruled = nil, ruledAs{}
	}
	s := w.shape
	if s == nil {
		return
	}
	w.shape = nil
	s.users--
	if s.own == w {
		e.dropShape(s)
	}
}

func (e *Engine) dropShape(s *shape) {
	for j, c := range s.classes {
		e.dropClass(c)
		delete(s.classes, j)
	}
	delete(e.shapes, s.key)
}

func (e *Engine) dropClass(c *class) {
	if c.indexed {
		e.indexed--
	}
}

// sweepIdle drops, now and then, shapes that no workload has any more and
// orders of candidates that nobody asks for. Of rulings, which may be others in
// each cycle, it keeps those that workloads are under.
func (e *Engine) sweepIdle() {
	if e.cycle-e.swept < sweepEvery && len(e.rulings.known) < 2*e.rulings.kept+sweepAfter {
		return
	}
	e.swept = e.cycle
	for _, s := range e.shapes {
		if s.users == 0 && e.idle(s.used) {
			e.dropShape(s)
			continue
		}
		e.sweepClasses(s)
	}
	e.sweepFilters()
	e.sweepRulings()
}

func (e *Engine) sweepRulings() {
	inUse := make(map[*judgement]bool)
	for _, s := range e.shapes {
		for j := range s.classes {
			inUse[j] = true
		}
	}
	for hash, list := range e.rulings.known {
		list = slices.DeleteFunc(list, func(j *judgement) bool { return !inUse[j] })
		if e.rulings.known[hash] = list; len(list) == 0 {
			delete(e.rulings.known, hash)
		}
	}
	e.rulings.kept = len(e.rulings.known)
}

func (e *Engine) idle(used uint64) bool { return used+idleCycles < e.cycle }

// sweepClasses drops the classes of a shape that no workload is in, and the
// candidates of those that were not asked for.
func (e *Engine) sweepClasses(s *shape) {
	for j, c := range s.classes {
		if c.users == 0 || e.idle(c.used) {
			e.dropClass(c)
			*c = class{shape: c.shape, judged: c.judged, users: c.users, used: c.used}
		}
		if c.users == 0 {
			delete(s.classes, j)
		}
	}
}

// sweepFilters drops the filters that neither a shape nor the mix reads.
func (e *Engine) sweepFilters() {
	inUse := make(map[*filter]bool, len(e.filters))
	for _, n := range e.demands.counts {
		inUse[n.filter] = true
	}
	for _, s := range e.shapes {
		inUse[s.filter] = true
	}
	maps.DeleteFunc(e.filters, func(_ string, f *filter) bool { return !inUse[f] })
}
