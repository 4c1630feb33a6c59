package placement

import (
	"fmt"

	"github.com/psgrid/psg"
)

// unusable says why a node's own figures can't be trusted, or "".
func unusable(n *psg.Node) string {
	if err := n.Capacity.Validate(); err != nil {
		return "capacity: " + err.Error()
	}
	for i := range n.Devices {
		d := &n.Devices[i]
		if d.MemoryMB < 0 || d.MemoryMB > psg.MaxQuantity {
			return fmt.Sprintf("device %s: memory_mb %d is outside 0..%d", d.ID, d.MemoryMB, int64(psg.MaxQuantity))
		}
	}
	if p := n.DynamicPorts; p.Min < 0 || p.Max > maxPort || p.Min > p.Max {
		return fmt.Sprintf("dynamic ports %d..%d are no range", p.Min, p.Max)
	}
	return ""
}

// senseless says why a workload can be placed nowhere at all, or "".
func senseless(w *psg.Workload) string {
	if err := w.Request.Validate(); err != nil {
		return "request: " + err.Error()
	}
	count := len(w.Constraints) + len(w.Affinities) + len(w.Spreads)
	for i := range w.Devices {
		d := &w.Devices[i]
		if why := senselessDevice(d); why != "" {
			return fmt.Sprintf("device ask %d (%s): %s", i, d.Name, why)
		}
		count += len(d.Constraints) + len(d.Affinities)
	}
	switch {
	case count > maxConstraints:
		return fmt.Sprintf("%d constraints, affinities and spreads; at most %d are considered", count, maxConstraints)
	case len(w.Devices) > maxDeviceAsks:
		return fmt.Sprintf("%d device asks; at most %d are considered", len(w.Devices), maxDeviceAsks)
	case len(w.Ports) > maxPorts:
		return fmt.Sprintf("%d ports; at most %d are considered", len(w.Ports), maxPorts)
	}
	for _, p := range w.Ports {
		if p.Static < 0 || p.Static > maxPort {
			return fmt.Sprintf("port %s: %d is outside 0..%d", p.Label, p.Static, maxPort)
		}
	}
	if w.MinDomains < 0 {
		return fmt.Sprintf("min_domains %d is below 0", w.MinDomains)
	}
	if w.MinDomains > w.Count && !w.Type.EveryNode() {
		return fmt.Sprintf("min_domains %d exceeds the count %d", w.MinDomains, w.Count)
	}
	return ""
}

func senselessDevice(d *psg.DeviceAsk) string {
	switch {
	case d.Count < 0 || d.Count > maxCards:
		return fmt.Sprintf("count %d is outside 0..%d", d.Count, maxCards)
	case d.MilliGPU < 0 || d.MilliGPU > wholeCard:
		return fmt.Sprintf("milli_gpu %d is outside 0..%d", d.MilliGPU, wholeCard)
	case d.MemoryMB < 0 || d.MemoryMB > psg.MaxQuantity:
		return fmt.Sprintf("memory_mb %d is outside 0..%d", d.MemoryMB, int64(psg.MaxQuantity))
	}
	return ""
}
