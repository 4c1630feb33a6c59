package policies

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
)

// deadband is how far, relative to the larger, a measurement may be from the one
// that a verdict is of, for the verdict to stand while there is no budget.
const deadband = 0.02

// budget bounds how many pairs of workload and node are judged again in one view
// because a measurement is another. What exceeds it keeps its verdict: within
// the deadband at once, beyond it those judged last, and none for longer than
// maxAge.
type budget struct {
	pairs  int
	maxAge time.Duration

	mu       sync.Mutex
	around   *surroundings // of the view that left is of
	left     int
	deferred uint64 // pairs that kept their verdict, once for each view
}

// candidate is a row that differs from its verdict's in measurements only.
type candidate struct {
	row, old int // in this view, and in the opinions
	slight   bool
	at       time.Time
}

// defers says which of some candidates keep their verdict in a view.
func (b *budget) defers(all []candidate, v *surroundings) []candidate {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.around != v {
		b.around, b.left = v, b.pairs
	}
	if len(all) <= b.left {
		b.left -= len(all)
		return nil
	}
	late := func(c candidate) bool { return v.at.Sub(c.at) >= b.maxAge }
	waiting := slices.DeleteFunc(slices.Clone(all), late)
	b.left -= min(b.left, len(all)-len(waiting))
	slices.SortStableFunc(waiting, func(x, y candidate) int {
		if x.slight != y.slight {
			return cmp.Compare(btoi(x.slight), btoi(y.slight))
		}
		return x.at.Compare(y.at)
	})
	first := 0
	for first < len(waiting) && first < b.left && !waiting[first].slight {
		first++
	}
	b.left -= first
	b.deferred += uint64(len(waiting) - first)
	return waiting[first:]
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// difference is how what a policy reads of a node differs between two documents.
type difference int

const (
	none    difference = iota
	slight             // in measurements, each within the deadband
	farther            // in measurements only
	other
)

func (p *policy) difference(a, b *document) difference {
	if a == b {
		return none
	}
	changed, worst := b.since(a), none
	for _, path := range p.nodePaths {
		if len(path) == 0 {
			return other // all of it is read
		}
		index, ok := fieldIndex(path[0])
		if !ok || nodeFields[index].from&changed == 0 {
			continue
		}
		x, y := a.at(index, path[1:]), b.at(index, path[1:])
		switch {
		case same(x, y):
		case nodeFields[index].from != telemetry:
			return other
		case nodeFields[index].name == "telemetry" && near(x, y):
			worst = max(worst, slight)
		default:
			worst = farther
		}
	}
	return worst
}

// near reports whether two numbers are within the deadband.
func near(x, y ast.Value) bool {
	a, ok := x.(ast.Number)
	b, also := y.(ast.Number)
	if !ok || !also {
		return false
	}
	f, _ := a.Float64()
	g, _ := b.Float64()
	return math.Abs(f-g) <= deadband*max(math.Abs(f), math.Abs(g))
}

// measures reports whether deny or score read what is measured.
func (p *policy) measures() bool {
	return slices.ContainsFunc(p.nodePaths, func(path []string) bool {
		if len(path) == 0 {
			return true
		}
		index, ok := fieldIndex(path[0])
		return ok && nodeFields[index].from == telemetry
	})
}
