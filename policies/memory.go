package policies

import (
	"slices"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/psgrid/psg"
)

// maxRemembered bounds the workloads that a memory holds: with four policies
// and 5,000 nodes each takes about 160 KB.
const maxRemembered = 128

// memory keeps the last verdicts on each of the workloads ruled on most
// recently, so that in the next snapshot only pairs whose input changed are
// evaluated.
type memory struct {
	mu      sync.Mutex
	entries []*remembered // the most recently ruled on last
}

// remembered is immutable. A nil one remembers nothing.
type remembered struct {
	workload psg.WorkloadID
	version  uint64
	view     *view
	columns  []verdicts // by policy; nil where it was not asked
}

// recall returns what is remembered of exactly this version of a workload.
func (m *memory) recall(w *psg.Workload) *remembered {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, entry := range slices.Backward(m.entries) {
		if entry.workload == w.ID && entry.version == w.Version {
			return entry
		}
	}
	return nil
}

// keep remembers, unless the workload's version is 0, which promises nothing.
// It keeps no view alive for the sake of no verdicts.
func (m *memory) keep(w *psg.Workload, v *view, columns []verdicts) {
	if w.Version == 0 {
		return
	}
	if !slices.ContainsFunc(columns, func(c verdicts) bool { return c != nil }) {
		columns, v = nil, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries = slices.DeleteFunc(m.entries, func(entry *remembered) bool { return entry.workload == w.ID })
	if v == nil {
		return
	}
	if len(m.entries) == maxRemembered {
		m.entries = slices.Delete(m.entries, 0, 1)
	}
	m.entries = append(m.entries, &remembered{w.ID, w.Version, v, columns})
}

// column returns the verdicts of policy i that still hold in a view, nil for
// the rows to be judged anew.
func (r *remembered) column(i int, p *policy, v *view) verdicts {
	if r == nil || r.columns[i] == nil || !p.unchanged(r.view.surroundings, v.surroundings) {
		return nil
	}
	out := make(verdicts, len(v.nodes))
	for row, document := range v.nodes {
		old := rowOf(r.view.nodes, document.node.ID, row)
		if old >= 0 && p.alike(r.view.nodes[old], document) && !r.columns[i][old].timeout {
			out[row] = r.columns[i][old]
		}
	}
	return out
}

// unchanged reports whether all that a policy reads besides workload and node
// is the same.
func (p *policy) unchanged(a, b *surroundings) bool {
	if p.reads.now && a.now != b.now || p.reads.cluster && a.cluster != b.cluster || p.unreadable(a) != "" {
		return false
	}
	return !slices.ContainsFunc(p.reads.sources, func(name string) bool { return a.sources[name] != b.sources[name] })
}

// alike reports whether all that deny and score read of a node is the same in
// two of its documents.
func (p *policy) alike(a, b *document) bool {
	if a == b {
		return true
	}
	changed := b.since(a)
	for _, path := range p.nodePaths {
		if len(path) == 0 {
			return false // all of it is read
		}
		index, ok := fieldIndex(path[0])
		if !ok || nodeFields[index].from&changed == 0 {
			continue
		}
		x, y := a.at(index, path[1:]), b.at(index, path[1:])
		if (x == nil) != (y == nil) || x != nil && ast.Compare(x, y) != 0 {
			return false
		}
	}
	return true
}
