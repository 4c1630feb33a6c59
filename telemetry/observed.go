package telemetry

import (
	"time"

	"github.com/psgrid/psg"
)

// The windows that are made of whole slots.
const (
	minuteSlots = 6
	longSlots   = keptSlots
)

// desk is the memory that windows are merged in, one node after another.
type desk struct {
	merge   *merge
	cursors [longSlots]cursor
}

func newDesk() *desk { return &desk{merge: newMerge()} }

// open puts a cursor before the first distribution of a slot.
func (d *desk) open(i int, data []byte) *cursor {
	c := &d.cursors[i]
	c.data, c.err = data, nil
	c.at.series, c.at.count = 0, 0
	return c
}

// to moves a cursor to a series, and reports whether the slot has it.
func (c *cursor) to(id psg.SeriesID) bool {
	for c.at.series < id && c.next() {
	}
	return c.at.series == id && c.at.count > 0
}

// observed is what is known of the node.
func (n *node) observed(id psg.NodeID, d *desk) psg.NodeObserved {
	if n.stale {
		n.lookBack(d)
	}
	if !n.projected {
		n.project()
	}
	var before []byte
	if last := len(n.slots) - 1; last >= 0 && n.slots[last].Number == n.open-1 {
		before = n.slots[last].Data
	}
	slot, metrics := d.open(0, before), make(map[string]psg.Stats, len(n.own))
	for i := range n.own {
		s := &n.own[i]
		if len(s.changes) == 0 {
			continue
		}
		var earlier *distribution
		if slot.to(s.id) {
			earlier = &slot.at
		}
		metrics[s.kind.metric] = n.stats(s, earlier, d.merge)
	}
	seen := psg.Telemetry{At: n.at, Metrics: metrics, Allocs: n.allocs.telemetry(n.at)}
	return psg.NodeObserved{Node: id, Telemetry: seen, Projection: n.projection, Inventory: n.inventory}
}

// leastShare is what the open slot counts for when it has just begun.
const leastShare = 0.01

// stats is of the 10 s that end with the latest sample: the open slot, and the
// share of the one before it that is within them.
func (n *node) stats(s *series, before *distribution, m *merge) psg.Stats {
	share := float64(n.at.UnixMilli()-n.open*SlotSpan.Milliseconds()) / float64(SlotSpan.Milliseconds())
	share = min(max(share, leastShare), 1)
	m.reset()
	each := share / float64(n.sequence+1-n.openFirst)
	for i, c := range s.changes {
		until := uint32(n.sequence) + 1
		if i+1 < len(s.changes) {
			until = s.changes[i+1].sequence
		}
		if from := max(c.sequence, uint32(n.openFirst)); until > from {
			m.addValue(c.units, c.index, float64(until-from)*each)
		}
	}
	if before != nil && share < 1 {
		m.add(before, 1-share)
	}
	sum := m.summary(s.kind.scale)
	return psg.Stats{
		Last: valueOf(s.changes[len(s.changes)-1].units, s.kind.scale),
		Mean: sum.Mean, Max: sum.Max, P50: sum.P50, P95: sum.P95, P99: sum.P99,
		Over60s: s.over60s, Over5m: s.over5m,
	}
}

// lookBack makes the longer windows anew. They are the same until another slot
// is over.
func (n *node) lookBack(d *desk) {
	n.stale = false
	var slots []psg.Slot
	for _, slot := range n.slots {
		if slot.Number >= n.open-longSlots && slot.Number < n.open {
			d.open(len(slots), slot.Data)
			slots = append(slots, slot)
		}
	}
	recent := 0
	for recent < len(slots) && slots[recent].Number < n.open-minuteSlots {
		recent++
	}
	for i := range n.own {
		s := &n.own[i]
		for c := range slots {
			d.cursors[c].to(s.id)
		}
		s.over60s = d.summary(s, d.cursors[recent:len(slots)], s.over60s)
		s.over5m = d.summary(s, d.cursors[:len(slots)], s.over5m)
	}
}

// summary joins what slots have of a series; it is the one before if that is the
// same, and nil if they have nothing.
func (d *desk) summary(s *series, slots []cursor, before *psg.Summary) *psg.Summary {
	d.merge.reset()
	for i := range slots {
		if c := &slots[i]; c.at.series == s.id && c.at.count > 0 {
			d.merge.add(&c.at, 1)
		}
	}
	if d.merge.weight == 0 {
		return nil
	}
	sum := d.merge.summary(s.kind.scale)
	if before != nil && *before == sum {
		return before
	}
	return &sum
}

func (n *node) project() {
	n.projected = true
	var p projecting
	for i := range n.own {
		p.add(n.own[i].kind.metric, n.own[i].forecast)
	}
	n.projection = p.projection(n.at)
}

// projecting collects the forecasts of several series.
type projecting struct {
	any         bool
	mean, upper psg.Resources
}

func (p *projecting) add(metric string, f forecast) {
	if dimension, ok := projected(metric); ok && f.sequence > 0 {
		p.any = true
		p.mean[dimension], p.upper[dimension] = f.mean, f.upper
	}
}

func (p *projecting) projection(at time.Time) *psg.Projection {
	if !p.any {
		return nil
	}
	return &psg.Projection{At: at, Horizon: Horizon, Mean: p.mean, Upper: p.upper}
}
