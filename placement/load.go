package placement

import "github.com/psgrid/psg"

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
func band(n *psg.Node, d psg.Dimension) int64 {
	switch used := use(n, d); {
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
