package psg

import "fmt"

// Limit bounds how many instances whose labels match may hold room on each node
// and in the whole cluster, whatever their jobs.
type Limit struct {
	Name    string            `json:"name"` // as reasons name it
	Match   map[string]string `json:"match"`
	PerNode int               `json:"per_node,omitempty"` // 0 means no limit per node
	Total   int               `json:"total,omitempty"`    // 0 means no limit in the cluster
	Soft    bool              `json:"soft,omitempty"`     // prefer, do not enforce, PerNode
}

// Covers reports whether the instances of a workload with these labels count: it
// carries all that are named.
func (l *Limit) Covers(labels map[string]string) bool {
	for key, value := range l.Match {
		if have, ok := labels[key]; !ok || have != value {
			return false
		}
	}
	return true
}

// Validate reports what makes no sense.
func (l *Limit) Validate() error {
	switch {
	case l.Name == "":
		return fmt.Errorf("it has no name")
	case len(l.Match) == 0:
		return fmt.Errorf("it matches every workload: it names no label")
	case l.PerNode < 0 || l.Total < 0 || l.PerNode == 0 && l.Total == 0:
		return fmt.Errorf("it bounds nothing: per_node %d, total %d", l.PerNode, l.Total)
	case l.Soft && l.PerNode == 0:
		return fmt.Errorf("it is soft but has no per_node, which alone can be")
	}
	return nil
}
