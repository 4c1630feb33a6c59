package placement

import (
	"math/bits"

	"github.com/psgrid/psg"
)

// part names one contribution to a node's score.
type part int

const (
	partPolicy part = iota
	partAffinity
	partSpread
	partDeviceAffinity
	partNUMA
	partSoftLimit
	partLoad
	partFragmentation
	partPacking
	partCount
)

var partNames = [partCount]string{
	"policy", "affinity", "spread", "device-affinity", "numa", "limit", "load", "fragmentation", "packing",
}

// parts is a score, part by part, in milli-points.
type parts [partCount]int64

func (p *parts) total() int64 {
	sum := int64(0)
	for _, points := range p {
		sum += points
	}
	return sum
}

// list names the parts that are not zero.
func (p *parts) list() []psg.ScorePart {
	list := make([]psg.ScorePart, 0, 4)
	for i, points := range p {
		if points != 0 {
			list = append(list, psg.ScorePart{Name: partNames[i], Points: points})
		}
	}
	return list
}

// rate says whether an instance of a shape fits the node in a slot, leaving
// out what depends on the values its tally counts by, and how good it is there.
func (e *Engine) rate(s *shape, j *judgement, slot int32, p *parts) bool {
	*p = parts{}
	room := &e.rooms[slot]
	if j.denied.Has(int(slot)) || !room.fits(s.amounts) {
		return false
	}
	v := s.filter.on(e, slot)
	if !v.ok {
		return false
	}
	n := e.slots[slot]
	if !s.ports.fits(n) || !e.underLimits(s, n, p) || s.crowded(n) || !n.cardsFit(s, v) {
		return false
	}
	w := &e.cfg.Weights
	if j.points != nil {
		p[partPolicy] = j.points[slot]
	}
	p[partAffinity] = w.Affinity * int64(v.affinity) / 1000
	p[partPacking] = w.Packing * room.fullness(&s.request) / 1000
	if len(s.devices) > 0 {
		e.rateCards(s, n, v, p)
	}
	if room.busy > 0 {
		p[partLoad] = -w.Load * room.overload() / loadBands
	}
	return true
}

// crowded reports whether distinct_hosts keeps the workload off a node where
// its group, or its job, has an instance.
func (s *shape) crowded(n *node) bool {
	if !s.distinctHosts && !s.distinctJob {
		return false
	}
	for _, h := range n.held {
		if h.workload == s.own || s.distinctJob && h.workload.job == s.own.job {
			return true
		}
	}
	return false
}

// underLimits checks the limits per node and charges for the soft ones.
func (e *Engine) underLimits(s *shape, n *node, p *parts) bool {
	for _, i := range s.limits {
		limit := &e.cfg.Limits[i]
		over := n.limits[i] + 1 - limit.PerNode
		if limit.PerNode == 0 || over <= 0 {
			continue
		}
		if !limit.Soft {
			return false
		}
		p[partSoftLimit] -= e.cfg.Weights.SoftLimit * int64(over)
	}
	return true
}

// rateCards scores what the instance would do to a node's cards.
func (e *Engine) rateCards(s *shape, n *node, v *verdict, p *parts) {
	w := &e.cfg.Weights
	if s.plain != nil {
		p[partFragmentation] = -w.Fragmentation * n.breaks(s.plain, v.cards[0]) / wholeCard
		return
	}
	shares, _ := n.assign(s, v)
	numas := make(map[int]bool)
	draw := int64(0)
	for _, share := range shares {
		spec := n.cards[n.byID[share.Device]].spec
		numas[spec.NUMA] = true
		draw += s.filter.devices[share.Ask].attracts(spec)
		if c := &n.cards[n.byID[share.Device]]; c.shares == 0 {
			p[partFragmentation] -= w.Fragmentation * (wholeCard - share.MilliGPU) / wholeCard
		}
	}
	if len(shares) > 0 {
		p[partDeviceAffinity] = w.Affinity * draw / int64(len(shares)) / 1000
	}
	if s.numa == "prefer" && len(numas) == 1 && !numas[-1] {
		p[partNUMA] = w.NUMA
	}
}

// breaks is how much of a whole card, in milli, an ask would leave unusable
// for those who need a whole one.
func (n *node) breaks(ask *psg.DeviceAsk, set uint64) int64 {
	if wantsWhole(ask) {
		return 0
	}
	opened := int64(0)
	for ; set != 0; set &= set - 1 {
		c := &n.cards[bits.TrailingZeros64(set)]
		if _, ok := c.share(0, ask); !ok {
			continue
		}
		if c.shares > 0 {
			return 0
		}
		opened = wholeCard - ask.MilliGPU
	}
	return opened
}
