package placement

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/psgrid/psg"
)

// mostDemands is how many kinds of demand fragmentation is measured against:
// the most frequent ones. More change the outcome by less than their cost.
const mostDemands = 32

// demandKey is one kind of demand for cards: what one instance of it needs.
type demandKey struct {
	filter           string
	milli            int64
	count            int
	cpuMHz, memoryMB int64
}

// demands counts the instances of registered workloads by kind of demand.
type demands struct {
	counts map[demandKey]*demandCount
	stale  bool // counts changed since mix was made
	mix    []demandGroup
	picked []pick // what mix was made of
}

// demandCount is how many instances demand one thing.
type demandCount struct {
	instances int64
	filter    *filter
}

// pick is one kind of demand in the mix.
type pick struct {
	key    demandKey
	weight int64
	filter *filter
}

// demandGroup is the kinds of demand that look for cards alike.
type demandGroup struct {
	filter  *filter
	milli   int64
	count   int
	members []demandMember
}

// demandMember is how far CPU and memory carry one kind of demand: milli-GPU
// served per MHz and per MiB, in fixed point.
type demandMember struct {
	perMHz, perMB int64
	weight        int64
}

const (
	rateShift   = 16
	mostRate    = 1 << 30
	mostAmount  = 1 << 30
	weightTotal = 1 << 16 // the weights of a mix sum up to this
)

// demandOf says what a workload's instances demand of cards; ok is false where
// they demand none, or more than one kind at once.
func demandOf(w *psg.Workload) (demandKey, bool) {
	if len(w.Devices) != 1 || w.Devices[0].Profile != "" || w.Devices[0].Count < 1 {
		return demandKey{}, false
	}
	ask := &w.Devices[0]
	k := demandKey{
		filter: filterKey(w), milli: ask.MilliGPU, count: ask.Count,
		cpuMHz: w.Request[psg.CPU], memoryMB: w.Request[psg.Memory],
	}
	if wantsWhole(ask) {
		k.milli = wholeCard
	}
	return k, k.milli > 0
}

// demand adds a workload's instances to the counts, or takes them away.
func (e *Engine) demand(w *workload, sign int64) {
	if !w.known || w.fault != "" {
		return
	}
	k, ok := demandOf(&w.spec)
	if !ok {
		return
	}
	n := e.demands.counts[k]
	if n == nil {
		n = &demandCount{filter: e.filterFor(&w.spec)}
		e.demands.counts[k] = n
	}
	if n.instances += sign * int64(max(1, min(mostInstances, w.spec.Count))); n.instances <= 0 {
		delete(e.demands.counts, k)
	}
	e.demands.stale = true
}

// remix chooses the mix that fragmentation is measured against from what is
// registered. Counts only matter by their power of two, so that a workload more
// or less seldom changes the mix, and with it every score.
func (e *Engine) remix() {
	d := &e.demands
	if !d.stale {
		return
	}
	d.stale = false
	picks := make([]pick, 0, len(d.counts))
	for k, n := range d.counts {
		picks = append(picks, pick{k, int64(1) << (bits.Len64(uint64(n.instances)) - 1), n.filter})
	}
	slices.SortFunc(picks, func(a, b pick) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), a.key.compare(b.key))
	})
	picks = picks[:min(len(picks), mostDemands)]
	if slices.Equal(picks, d.picked) {
		return
	}
	d.picked = picks
	d.mix = groups(picks)
	for slot, n := range e.slots {
		if n != nil && len(n.cards) > 0 {
			e.touch(int32(slot))
		}
	}
}

func (k demandKey) compare(o demandKey) int {
	return cmp.Or(
		cmp.Compare(k.milli, o.milli), cmp.Compare(k.count, o.count), cmp.Compare(k.cpuMHz, o.cpuMHz),
		cmp.Compare(k.memoryMB, o.memoryMB), cmp.Compare(k.filter, o.filter),
	)
}

// groups turns picks into the form that scores read.
func groups(picks []pick) []demandGroup {
	total := int64(0)
	for _, p := range picks {
		total += p.weight
	}
	var groups []demandGroup
	for _, p := range picks {
		at := slices.IndexFunc(groups, func(g demandGroup) bool {
			return g.filter == p.filter && g.milli == p.key.milli && g.count == p.key.count
		})
		if at < 0 {
			at = len(groups)
			groups = append(groups, demandGroup{filter: p.filter, milli: p.key.milli, count: p.key.count})
		}
		wanted := p.key.milli * int64(p.key.count)
		groups[at].members = append(groups[at].members, demandMember{
			perMHz: rate(wanted, p.key.cpuMHz), perMB: rate(wanted, p.key.memoryMB),
			weight: max(1, p.weight*weightTotal/total),
		})
	}
	return groups
}

// rate is how much of the wanted milli-GPU one unit of a resource carries.
func rate(wanted, units int64) int64 {
	if units <= 0 {
		return mostRate
	}
	return min(mostRate, wanted<<rateShift/units)
}
