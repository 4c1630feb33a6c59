package psg

import (
	"cmp"
	"slices"
	"time"
)

// Snapshot is the cluster at one moment: what policy rules on and what a
// placement engine can be built from. It is immutable once made; each slice is
// sorted by ID.
type Snapshot struct {
	At         time.Time  `json:"at"`
	Nodes      []Node     `json:"nodes"`
	Workloads  []Workload `json:"workloads"`
	Placements Placements `json:"placements"` // only those that hold room
}

// Sort puts the snapshot in its canonical order.
func (s *Snapshot) Sort() {
	slices.SortFunc(s.Nodes, func(a, b Node) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(s.Workloads, func(a, b Workload) int { return a.ID.Compare(b.ID) })
}

// Row returns the row of a node in Nodes.
func (s *Snapshot) Row(id NodeID) (int, bool) {
	return slices.BinarySearchFunc(s.Nodes, id, func(n Node, id NodeID) int { return cmp.Compare(n.ID, id) })
}

// Workload returns the workload with an ID, or nil.
func (s *Snapshot) Workload(id WorkloadID) *Workload {
	i, ok := slices.BinarySearchFunc(s.Workloads, id, func(w Workload, id WorkloadID) int { return w.ID.Compare(id) })
	if !ok {
		return nil
	}
	return &s.Workloads[i]
}

// Deltas returns the deltas that build this snapshot from nothing.
func (s *Snapshot) Deltas() []Delta {
	deltas := make([]Delta, 0, len(s.Nodes)+len(s.Workloads)+s.Placements.Len())
	for _, n := range s.Nodes {
		deltas = append(deltas, NodeChanged{n})
	}
	for _, w := range s.Workloads {
		deltas = append(deltas, WorkloadChanged{w})
	}
	for p := range s.Placements.All() {
		deltas = append(deltas, Placed{*p})
	}
	return deltas
}
