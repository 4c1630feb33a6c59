package placement

import "github.com/psgrid/psg"

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
	partHeadroom
	partFragmentation
	partPacking
	partCount
)

var partNames = [partCount]string{
	"policy", "affinity", "spread", "device-affinity", "numa", "limit", "load", "headroom", "fragmentation", "packing",
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

// appendTo adds the parts that are not zero to a list.
func (p *parts) appendTo(list []psg.ScorePart) []psg.ScorePart {
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
		p[partPolicy] = int64(j.points[slot])
	}
	p[partAffinity] = w.Affinity * int64(v.affinity) / 1000
	if room.cards {
		e.rateCards(s, n, v, p) // in place of packing: see fragmentStep
	} else {
		p[partPacking] = w.Packing * room.fullness(&s.request) / 1000
	}
	if room.busy > 0 {
		p[partLoad] = -w.Load * room.overload() / bands
	}
	if lacking := room.cramped(&s.request); lacking > 0 {
		p[partHeadroom] = -w.Headroom * lacking / bands
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
	loss, _ := e.lost(s, n, v)
	p[partFragmentation] = e.cfg.Weights.Fragmentation * floorDiv(-loss, fragmentStep) * fragmentStep / wholeCard
	if len(s.devices) == 0 || s.plain != nil {
		return
	}
	shares, _ := n.assign(s, v)
	numas := make(map[int]bool)
	draw := int64(0)
	for _, share := range shares {
		spec := n.cards[n.byID[share.Device]].spec
		numas[spec.NUMA] = true
		draw += s.filter.devices[share.Ask].attracts(spec)
	}
	if len(shares) > 0 {
		p[partDeviceAffinity] = e.cfg.Weights.Affinity * draw / int64(len(shares)) / 1000
	}
	if s.numa == "prefer" && len(numas) == 1 && !numas[-1] {
		p[partNUMA] = e.cfg.Weights.NUMA
	}
}
