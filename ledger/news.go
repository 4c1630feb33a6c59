package ledger

import (
	"reflect"
	"slices"

	"github.com/psgrid/psg"
)

// News reports whether folding a fact would change anything that the ledger
// keeps. Watchers list the world anew after every gap: what is known already
// need not be recorded again. Telemetry is never news, for it is not kept.
func (s *State) News(d psg.Delta) bool {
	switch d := d.(type) {
	case psg.NodeChanged:
		known := s.nodes[d.Node.ID]
		if known == nil || known.Version < d.Node.Version {
			return true
		}
		seen := *known
		seen.Telemetry, seen.Projection = d.Node.Telemetry, d.Node.Projection
		return known.Version == d.Node.Version && !reflect.DeepEqual(seen, d.Node)
	case psg.NodeGone:
		return s.nodes[d.Node] != nil
	case psg.NodeObserved:
		return false
	case psg.WorkloadChanged:
		known := s.workloads[d.Workload.ID]
		// Version 0 is what somebody is about to register: no version is newer.
		return known == nil || known.Version < d.Workload.Version ||
			(known.Version == d.Workload.Version || d.Workload.Version == 0) && !reflect.DeepEqual(*known, d.Workload)
	case psg.WorkloadGone:
		return s.workloads[d.Workload] != nil
	case psg.Asked:
		return s.asks[d.Ask.ID] == nil
	case psg.Placed:
		status := s.asks[d.Placement.Ask.ID]
		return status == nil || status.Placement == nil || !sameRoom(status.Placement, &d.Placement)
	case psg.Moved:
		status := s.asks[d.Ask]
		return status != nil && status.Placement != nil && movedNews(status, d)
	case psg.BundleChanged:
		return s.bundle != d.Bundle
	case psg.Freed:
		status := s.asks[d.Ask]
		return status != nil && !status.Over()
	}
	return true
}

// sameRoom reports whether two placements hold the same, in the same state.
func sameRoom(a, b *psg.Placement) bool {
	return a.State == b.State && holdsSame(a, b)
}

// holdsSame reports whether two placements hold the same.
func holdsSame(a, b *psg.Placement) bool {
	return a.Node == b.Node && a.Request == b.Request && slices.Equal(a.Devices, b.Devices) && slices.Equal(a.Ports, b.Ports)
}
