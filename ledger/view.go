package ledger

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/psgrid/psg"
)

// Snapshot returns the cluster as it stands, stamped with at. It costs what has
// changed since the last one, and a copy of the list of nodes or of workloads
// that a change is in; the rest is shared with earlier snapshots. So are its
// placements with the state itself, which never changes one that it holds: each
// change, of its state too, is another placement in its stead.
func (s *State) Snapshot(at time.Time) *psg.Snapshot {
	s.view.Nodes = renew(s.view.Nodes, s.changed.nodes, func(n psg.Node) psg.NodeID { return n.ID },
		cmp.Compare[psg.NodeID], func(id psg.NodeID) *psg.Node { return s.nodes[id] })
	s.view.Workloads = renew(s.view.Workloads, s.changed.workloads, func(w psg.Workload) psg.WorkloadID { return w.ID },
		psg.WorkloadID.Compare, func(id psg.WorkloadID) *psg.Workload { return s.workloads[id] })
	changed := slices.Collect(maps.Keys(s.changed.asks))
	s.view.Placements = s.view.Placements.Renew(changed, s.placement)
	s.standing = s.standing.Renew(changed, s.stands)
	clear(s.changed.asks)
	snap := s.view
	snap.At = at
	return &snap
}

// placement is what an ask holds now, or nil.
func (s *State) placement(id psg.RequestID) *psg.Placement {
	if status := s.asks[id]; status != nil {
		return status.Placement
	}
	return nil
}

// stands is where an ask stands, or nil if it is over or not known.
func (s *State) stands(id psg.RequestID) *psg.AskStatus {
	if status := s.asks[id]; status != nil && !status.Over() {
		return status
	}
	return nil
}

// changes are what the last snapshot does not show yet.
type changes struct {
	nodes     map[psg.NodeID]struct{}
	workloads map[psg.WorkloadID]struct{}
	asks      map[psg.RequestID]struct{}
}

func newChanges() changes {
	return changes{map[psg.NodeID]struct{}{}, map[psg.WorkloadID]struct{}{}, map[psg.RequestID]struct{}{}}
}

// renew returns a list in which each changed item is as now has it, or absent
// where now has none, and empties changed. The list given stays as it is.
func renew[K comparable, V any](list []V, changed map[K]struct{}, of func(V) K, compare func(K, K) int, now func(K) *V) []V {
	if len(changed) == 0 {
		return list
	}
	fresh := make([]V, 0, len(list)+len(changed))
	for _, id := range slices.SortedFunc(maps.Keys(changed), compare) {
		i, known := slices.BinarySearchFunc(list, id, func(v V, id K) int { return compare(of(v), id) })
		fresh = append(fresh, list[:i]...)
		if known {
			i++
		}
		list = list[i:]
		if v := now(id); v != nil {
			fresh = append(fresh, *v)
		}
	}
	clear(changed)
	if fresh = append(fresh, list...); len(fresh) == 0 {
		return nil
	}
	return fresh
}
