package policies

import (
	"slices"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
)

// alike remembers, while the rows of one view are judged, what was said of nodes
// that are alike in all that the policy reads of them.
type alike struct {
	paths [][]string

	mu   sync.Mutex
	said map[int][]alikeSaid // by the hash of the values
}

type alikeSaid struct {
	values []ast.Value // nil where undefined
	say    *verdict
}

// alikes is nil for a policy that reads what no two nodes have in common.
func (p *policy) alikes() *alike {
	for _, path := range p.nodePaths {
		if len(path) == 0 || slices.Contains([]string{"id", "name", "telemetry", "observed_at"}, path[0]) {
			return nil
		}
	}
	return &alike{paths: p.nodePaths, said: map[int][]alikeSaid{}}
}

// judge says of a node what was said of one like it, or what judge says. Of two
// alike that are judged at a time, both are.
func (a *alike) judge(d *document, judge func() *verdict) *verdict {
	if a == nil {
		return judge()
	}
	values, hash := make([]ast.Value, len(a.paths)), 0
	for i, path := range a.paths {
		index, ok := fieldIndex(path[0])
		if !ok {
			continue
		}
		if values[i] = d.at(index, path[1:]); values[i] != nil {
			hash = hash*31 + values[i].Hash()
		}
	}
	a.mu.Lock()
	for _, other := range a.said[hash] {
		if slices.EqualFunc(values, other.values, same) {
			a.mu.Unlock()
			return other.say
		}
	}
	a.mu.Unlock()
	say := judge()
	if !say.timeout {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.said[hash] = append(a.said[hash], alikeSaid{values, say})
	}
	return say
}
