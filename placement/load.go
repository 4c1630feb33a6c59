package placement

import "github.com/psgrid/psg"

// loadBands is the number of steps in which load counts: coarse, so that
// telemetry that only flickers moves nothing.
const loadBands = 10

// loadBand is how busy a node's processors are projected to be, or else were
// measured, in tenths of the node.
func loadBand(n *psg.Node) int64 {
	busy := 0.0
	if p := n.Projection; p != nil && n.Capacity[psg.CPU] > 0 {
		busy = float64(p.Upper[psg.CPU]) / float64(n.Capacity[psg.CPU])
	} else if n.Telemetry != nil {
		busy = n.Telemetry.Metrics["cpu_percent"].P95 / 100
	}
	switch {
	case busy >= 1:
		return loadBands
	case busy > 0:
		return int64(busy * loadBands)
	}
	return 0
}
