package placement

// What has not been used for this many cycles is dropped.
const (
	idleCycles = 256
	sweepEvery = 64
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
// orders of candidates that nobody asks for.
func (e *Engine) sweepIdle() {
	if e.cycle%sweepEvery != 0 {
		return
	}
	idle := func(used uint64) bool { return used+idleCycles < e.cycle }
	filters := make(map[*filter]bool, len(e.filters))
	for _, n := range e.demands.counts {
		filters[n.filter] = true
	}
	for _, s := range e.shapes {
		if s.users == 0 && idle(s.used) {
			e.dropShape(s)
			continue
		}
		filters[s.filter] = true
		for j, c := range s.classes {
			if c.users == 0 || idle(c.used) {
				e.dropClass(c)
				*c = class{shape: c.shape, judged: c.judged, users: c.users, used: c.used}
			}
			if c.users == 0 {
				delete(s.classes, j)
			}
		}
	}
	for key, f := range e.filters {
		if !filters[f] {
			delete(e.filters, key)
		}
	}
	for hash, list := range e.rulings.known {
		kept := list[:0]
		for _, j := range list {
			if !idle(j.used) {
				kept = append(kept, j)
			}
		}
		if e.rulings.known[hash] = kept; len(kept) == 0 {
			delete(e.rulings.known, hash)
		}
	}
}
