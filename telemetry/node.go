package telemetry

import (
	"cmp"
	"slices"
	"time"

	"github.com/DataDog/sketches-go/ddsketch/mapping"

	"github.com/psgrid/psg"
)

// node is what samples have said of one node in one session.
type node struct {
	session  uint64
	arrived  time.Time // by the reader's clock
	silent   bool      // and that was told
	sequence uint64    // the highest that has arrived
	at       time.Time // of that sample
	full     uint64    // the highest of a full sample that has arrived

	open      int64  // number of the slot of the latest sample
	openFirst uint64 // the lowest sequence in it that has arrived
	heard     int    // values of the node's own series since it began
	own       []series
	slots     []psg.Slot // whole ones, ascending by number
	stale     bool       // the series' longer windows are of other slots

	inventory *psg.Inventory // nil: not known
	foundAt   uint64         // sequence of the sample that told it

	allocs     allocs
	projection *psg.Projection
	projected  bool // projection is of the forecasts that have arrived
}

// series is one of the node's own.
type series struct {
	id       psg.SeriesID
	kind     *kind
	declared uint64 // sequence
	// changes are the values within the open slot, ascending by sequence; the
	// first may be from before, as the value that the slot began with.
	changes         []change
	forecast        forecast
	over60s, over5m *psg.Summary
}

// change says that a series had a value from a sample on.
type change struct {
	sequence uint32
	index    uint32 // of the bin that the value is in
	units    int64
}

// forecast is the latest that has arrived: none while sequence is 0.
type forecast struct {
	sequence    uint64
	mean, upper int64
}

func newNode(session uint64) *node {
	return &node{session: session, allocs: allocs{series: map[psg.SeriesID]*allocSeries{}}}
}

// known reports whether a full sample has arrived: before one, most is missing.
func (n *node) known() bool { return n.full > 0 }

// fold takes in a sample that makes sense.
func (n *node) fold(s *psg.Sample, kindOf func(psg.Declared) *kind, sizes mapping.IndexMapping) {
	n.turn(s)
	if s.Full && s.Sequence > n.full {
		n.full = s.Sequence
		n.keepOnly(s.Declared)
	}
	if s.Sequence >= n.full {
		for _, d := range s.Declared {
			n.declare(d, s.Sequence, kindOf)
		}
	}
	for _, v := range s.Values {
		if own := n.find(v.Series); own != nil {
			n.heard++
			own.change(change{uint32(s.Sequence), indexOf(sizes, v.Units), v.Units}, uint32(n.openFirst), n.heard <= maxHeard)
		} else {
			n.allocs.value(v, s.Sequence)
		}
	}
	for _, u := range s.Uses {
		n.allocs.use(u, s.Sequence)
	}
	for _, f := range s.Forecasts {
		n.forecast(f, s.Sequence)
	}
	for _, id := range s.Gone {
		n.drop(id)
	}
	for _, slot := range s.Slots {
		n.keep(slot)
	}
	if s.Inventory != nil && s.Sequence > n.foundAt {
		n.inventory, n.foundAt = s.Inventory, s.Sequence
	}
}

// turn moves on to the slot that a sample is in, if that is later than the open
// one.
func (n *node) turn(s *psg.Sample) {
	if s.Sequence > n.sequence {
		n.sequence, n.at = s.Sequence, s.At
	}
	switch number := floor(s.At); {
	case number > n.open || n.openFirst == 0:
		n.open, n.openFirst, n.heard, n.stale = number, s.Sequence, 0, true
		for i := range n.own {
			n.own[i].turn()
		}
	case number == n.open:
		n.openFirst = min(n.openFirst, s.Sequence)
	}
}

func (n *node) keepOnly(declared []psg.Declared) {
	ids := make([]psg.SeriesID, len(declared))
	for i, d := range declared {
		ids[i] = d.ID
	}
	slices.Sort(ids)
	lost := func(id psg.SeriesID, declaredAt uint64) bool {
		_, found := slices.BinarySearch(ids, id)
		return !found && declaredAt < n.full
	}
	n.own = slices.DeleteFunc(n.own, func(s series) bool { return lost(s.id, s.declared) })
	n.projected = false
	n.allocs.dropIf(lost)
}

func (n *node) declare(d psg.Declared, sequence uint64, kindOf func(psg.Declared) *kind) {
	if len(n.own)+len(n.allocs.series) >= maxSeries {
		return
	}
	if d.Alloc != "" {
		n.allocs.declare(d, sequence, kindOf)
		return
	}
	i, found := n.index(d.ID)
	if found {
		n.own[i].declared = max(n.own[i].declared, sequence)
		return
	}
	n.own = slices.Insert(n.own, i, series{id: d.ID, kind: kindOf(d), declared: sequence})
	n.stale = true
}

func (n *node) index(id psg.SeriesID) (int, bool) {
	return slices.BinarySearchFunc(n.own, id, func(s series, id psg.SeriesID) int { return cmp.Compare(s.id, id) })
}

func (n *node) find(id psg.SeriesID) *series {
	if i, found := n.index(id); found {
		return &n.own[i]
	}
	return nil
}

func (n *node) drop(id psg.SeriesID) {
	if i, found := n.index(id); found {
		n.own = slices.Delete(n.own, i, i+1)
		n.projected = false
		return
	}
	n.allocs.dropIf(func(other psg.SeriesID, _ uint64) bool { return other == id })
}

// keep takes in a whole slot, unless it is known or too old.
func (n *node) keep(slot psg.Slot) {
	i, found := slices.BinarySearchFunc(n.slots, slot.Number, func(s psg.Slot, number int64) int { return cmp.Compare(s.Number, number) })
	if found || slot.Number < n.open-keptSlots {
		return
	}
	n.slots = slices.Insert(n.slots, i, slot)
	for len(n.slots) > 0 && n.slots[0].Number < n.open-keptSlots {
		n.slots = slices.Delete(n.slots, 0, 1)
	}
	n.stale = true
}

// turn begins a slot with the last value of the one before.
func (s *series) turn() {
	if last := len(s.changes) - 1; last > 0 {
		s.changes[0] = s.changes[last]
		s.changes = s.changes[:1]
	}
	if cap(s.changes) > usualChanges {
		s.changes = slices.Clone(s.changes)
	}
}

// change takes in a value. Of those from before the open slot only the last
// counts. Where there is no more room the newest takes the place of the one
// before it.
func (s *series) change(c change, openFirst uint32, room bool) {
	i := len(s.changes)
	for i > 0 && s.changes[i-1].sequence > c.sequence {
		i--
	}
	switch {
	case i > 0 && s.changes[i-1].sequence == c.sequence:
		return
	case c.sequence < openFirst:
		if i < len(s.changes) && s.changes[i].sequence < openFirst {
			return
		}
		s.changes = slices.Delete(s.changes, 0, i)
		i = 0
	}
	switch {
	case len(s.changes) == 0, room && len(s.changes) < maxCount:
		s.changes = slices.Insert(s.changes, i, c)
	case i == len(s.changes):
		s.changes[i-1] = c
	}
}

func (n *node) forecast(f psg.Forecast, sequence uint64) {
	at := n.allocs.forecast(f.Series)
	if own := n.find(f.Series); own != nil {
		at, n.projected = &own.forecast, false
	}
	if at != nil && at.sequence < sequence {
		*at = forecast{sequence, f.Mean, f.Upper}
	}
}
