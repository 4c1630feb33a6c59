package psg

import (
	"cmp"
	"maps"
	"slices"
)

// Inventory is every device that a node's agent finds on it, by ID. It is
// immutable once made.
type Inventory struct {
	Devices []Device
}

// WithInventory returns the node with what its agent finds in place of what it
// found before, and whether that changes anything. A device that the orchestrator
// lists stays as the orchestrator describes it, as its allocations hold it: only
// where it stands is taken from the agent, if the orchestrator does not tell.
func (n Node) WithInventory(found []Device) (Node, bool) {
	devices := slices.DeleteFunc(slices.Clone(n.Devices), func(d Device) bool { return d.Reported })
	for _, d := range found {
		d.Reported = true
		devices = join(devices, d)
	}
	if slices.EqualFunc(n.Devices, devices, Device.Equal) {
		return n, false
	}
	n.Devices = devices
	return n, true
}

// Keeping returns the node, as the orchestrator tells of it, with what its agent
// had found when it was as before.
func (n Node) Keeping(before *Node) Node {
	var kept []Device
	for _, d := range before.Devices {
		listed := slices.ContainsFunc(n.Devices, func(own Device) bool { return own.ID == d.ID })
		if d.Reported || listed {
			kept = append(kept, d)
		}
	}
	n, _ = n.WithInventory(kept)
	return n
}

// join adds a device, or where it stands to the one of its ID.
func join(devices []Device, found Device) []Device {
	i := slices.IndexFunc(devices, func(d Device) bool { return d.ID == found.ID })
	if i < 0 {
		return append(devices, found)
	}
	own := &devices[i]
	if own.NUMA < 0 {
		own.NUMA = found.NUMA
	}
	own.Link = cmp.Or(own.Link, found.Link)
	return devices
}

// Equal reports whether two devices are the same in all that is said of them.
func (d Device) Equal(e Device) bool {
	return d.ID == e.ID && d.Vendor == e.Vendor && d.Type == e.Type && d.Model == e.Model &&
		maps.Equal(d.Attributes, e.Attributes) && d.MemoryMB == e.MemoryMB && slices.Equal(d.Profiles, e.Profiles) &&
		d.NUMA == e.NUMA && d.Link == e.Link && d.Healthy == e.Healthy && d.Foreign == e.Foreign && d.Reported == e.Reported
}
