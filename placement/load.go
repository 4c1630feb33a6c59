package placement

import (
	"cmp"
	"slices"

	"github.com/psgrid/psg"
)

// bands is the number of steps in which use counts: coarse, so that telemetry
// that only flickers moves nothing.
const bands = 10

// observe takes in what a node is projected to use, or else was measured to,
// and reports whether that changes anything.
func (r *room) observe(n *psg.Node) bool {
	busy, filled := band(n, psg.CPU), band(n, psg.Memory)
	changed := busy != r.busy || filled != r.filled
	r.busy, r.filled = busy, filled
	return changed
}

// band is the use of one dimension in tenths of the node.
func band(n *psg.Node, d psg.Dimension) int64 { return tenths(use(n, d)) }

func tenths(used float64) int64 {
	switch {
	case used >= 1:
		return bands
	case used > 0:
		return int64(used * bands)
	}
	return 0
}

// use is the use of a node's processors or memory, as a share of it.
func use(n *psg.Node, d psg.Dimension) float64 {
	total := float64(n.Capacity[d])
	switch p := n.Projection; {
	case total <= 0:
		return 0
	case p != nil && p.Upper[d] > 0:
		return float64(p.Upper[d]) / total
	case n.Telemetry == nil:
		return 0
	case d == psg.CPU:
		return n.Telemetry.Metrics["cpu_percent"].P95 / 100
	}
	return n.Telemetry.Metrics["memory_used_mb"].P95 / total
}

// load is what is used of the dimensions that are measured, in their units.
type load [len(packed)]float64

// loadOf is what of its node's load is a placement's own: its share in what was
// measured, or, where it was not, what it needs, as far as that much is used.
func (r *room) loadOf(n *psg.Node, p *psg.Placement) (own load) {
	need := r.need(p.Request)
	for i, d := range packed {
		used := use(n, d) * float64(n.Capacity[d])
		if share, ok := shareOf(n, p.Ask.Alloc, d); ok {
			own[i] = used * min(1, share)
		} else {
			own[i] = min(used, float64(need[d]))
		}
	}
	return own
}

// shareOf is an allocation's share in what was measured of one dimension of its node,
// if it was. An allocation's processor time is measured in percent of one core.
func shareOf(n *psg.Node, alloc psg.AllocID, d psg.Dimension) (share float64, ok bool) {
	if n.Telemetry == nil || alloc == "" {
		return 0, false
	}
	list := n.Telemetry.Allocs
	at, found := slices.BinarySearchFunc(list, alloc, func(a psg.AllocTelemetry, id psg.AllocID) int { return cmp.Compare(a.Alloc, id) })
	if !found {
		return 0, false
	}
	name, whole := "memory_mb", n.Telemetry.Metrics["memory_used_mb"].P95
	if d == psg.CPU {
		name, whole = "cpu_percent", n.Telemetry.Metrics["cpu_percent"].P95*float64(n.Capacity[psg.Cores])
	}
	own, measured := list[at].Metrics[name]
	if !measured || whole <= 0 {
		return 0, false
	}
	return own.P95 / whole, true
}

// bear has a room be as loaded as its node is measured, and so much more or less.
// What is not measured stays so.
func (r *room) bear(n *psg.Node, more load) {
	bands := [len(packed)]*int64{&r.busy, &r.filled}
	for i, d := range packed {
		if used := use(n, d); used > 0 {
			*bands[i] = tenths(used + more[i]/float64(n.Capacity[d]))
		}
	}
}
