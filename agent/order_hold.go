package agent

import (
	"errors"

	"github.com/psgrid/psg/agent/hand"
)

// holdDown holds an allocation back that may fill its memory faster than the kernel
// empties it: then its processes stand still until the limit is set, and if even
// that does not do, it is held at its floor of CPU instead.
func (o *Orders) holdDown(h hold, limit hand.Limit, cores float64) error {
	err := o.holdBack(h, limit)
	if errors.Is(err, hand.ErrBusy) {
		still := limit
		still.Frozen = true
		if err = o.holdBack(h, still); err == nil {
			return o.letRun(h)
		}
	}
	if errors.Is(err, hand.ErrBusy) || errors.Is(err, hand.ErrNoGroup) && limit.MemoryMB > 0 {
		limit.MemoryMB, limit.Cores = 0, cores
		err = o.holdBack(h, limit)
	}
	return err
}

// letRun thaws what a hold has frozen, and keeps the rest of it.
func (o *Orders) letRun(h hold) error {
	h, _ = o.book.find(h.Kind, h.Alloc)
	var kept []hand.Write
	var failed error
	for _, w := range h.Writes {
		if !w.Freezes() {
			kept = append(kept, w)
		} else if err := hand.Undo(w); err != nil {
			kept, failed = append(kept, w), errors.Join(failed, err)
		}
	}
	h.Writes = kept
	o.book.add(h)
	return errors.Join(failed, o.book.save())
}

// possible leaves out what an allocation has no control group for; what cannot be
// held back in I/O or memory is held back in CPU, and so in those too.
func possible(l hand.Limit, tasks []tenant) hand.Limit {
	for _, t := range tasks {
		if t.groups.IO == "" && l.ReadBps > 0 {
			l.ReadBps, l.WriteBps, l.Cores = 0, 0, max(l.Cores, leastCores)
		}
		if t.groups.Memory == "" && l.MemoryMB > 0 {
			l.MemoryMB, l.Cores = 0, max(l.Cores, leastCores)
		}
	}
	return l
}
