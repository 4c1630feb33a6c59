package policies

import (
	"slices"
	"sync"
	"time"

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
	around   *surroundings
	columns  []opinions // by policy; the zero value where it was not asked
}

// opinions are what one policy said of each row for one workload: of which
// document of the node, and when. A verdict that is nil is yet to be given.
type opinions struct {
	verdicts verdicts
	of       []*document
	at       []time.Time
}

func newOpinions(rows int) opinions {
	return opinions{make(verdicts, rows), make([]*document, rows), make([]time.Time, rows)}
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

// keep remembers, unless the workload's version is 0, which promises nothing. It
// keeps nothing alive for the sake of no verdicts.
func (m *memory) keep(w *psg.Workload, v *view, columns []opinions) {
	if w.Version == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries = slices.DeleteFunc(m.entries, func(entry *remembered) bool { return entry.workload == w.ID })
	if !slices.ContainsFunc(columns, func(c opinions) bool { return c.verdicts != nil }) {
		return
	}
	if len(m.entries) == maxRemembered {
		m.entries = slices.Delete(m.entries, 0, 1)
	}
	m.entries = append(m.entries, &remembered{w.ID, w.Version, v.surroundings, columns})
}

// column returns the verdicts of policy i that still hold in a view, or may
// stand for want of budget; nil for the rows to be judged anew.
func (r *remembered) column(i int, p *policy, v *view, b *budget) opinions {
	out := newOpinions(len(v.nodes))
	if r == nil || r.columns[i].verdicts == nil || !p.unchanged(r.around, v.surroundings) {
		return out
	}
	was := &r.columns[i]
	var moved []candidate
	for row, document := range v.nodes {
		old := rowOf(was.of, document.node.ID, row)
		if old < 0 || was.verdicts[old].timeout {
			continue
		}
		switch d := p.difference(was.of[old], document); d {
		case none:
			out.verdicts[row], out.of[row], out.at[row] = was.verdicts[old], document, v.at
		case slight, farther:
			moved = append(moved, candidate{row, old, d == slight, was.at[old]})
		}
	}
	for _, c := range b.defers(moved, v.surroundings) {
		out.verdicts[c.row], out.of[c.row], out.at[c.row] = was.verdicts[c.old], was.of[c.old], c.at
	}
	return out
}

// unchanged reports whether all that deny and score read besides workload and
// node is the same.
func (p *policy) unchanged(a, b *surroundings) bool {
	return p.unreadable(a) == "" && p.paired.unchanged(a, b)
}
