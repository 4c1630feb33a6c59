package policies

import (
	"context"
	"slices"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
)

// table holds, for the last view that was ruled on, what columnar policies have
// in common: columns of what they read of the nodes, and for each condition the
// rows where it holds. From one view to the next only what changed is evaluated
// anew: of a node whose telemetry changed, the columns made of telemetry, and
// if their values differ, the conditions that read them, on that row.
type table struct {
	mu       sync.Mutex
	now      moment
	columns  map[string]*column
	params   map[string]*param
	atoms    map[string]*atom
	vectors  map[string]*vector
	programs map[string]*program
	// What clauses have in common.
	conjunctions map[string]*conjunction
	grants       map[grantKey]*grant

	tick    uint64 // rises with each view
	cells   rowCells
	updates uint64 // cells that were loaded again
}

// moment is a view together with its data as policies read it.
type moment struct {
	view *view
	data map[*policy]ast.Value
}

func at(v *view) moment { return moment{v, map[*policy]ast.Value{}} }

// dataOf is the data that a policy's units are evaluated with.
func (m moment) dataOf(p *policy) ast.Value {
	data, ok := m.data[p]
	if !ok {
		data = p.data(m.view)
		m.data[p] = data
	}
	return data
}

// maxKept bounds the columns and conditions that are kept. Beyond, all start
// anew: classes that are still ruled on make theirs again.
const maxKept = 4096

func (t *table) reset() {
	t.columns, t.params = map[string]*column{}, map[string]*param{}
	t.atoms, t.vectors = map[string]*atom{}, map[string]*vector{}
	t.programs = map[string]*program{}
	t.conjunctions, t.grants = map[string]*conjunction{}, map[grantKey]*grant{}
}

// rows is how many nodes there are.
func (t *table) rows() int { return len(t.now.view.nodes) }

// advance makes v the view that the table is of.
func (t *table) advance(v *view) {
	if t.now.view == v {
		return
	}
	before := t.now.view.nodes
	t.now = at(v)
	t.tick++
	if !sameNodes(before, v.nodes) {
		for _, c := range t.columns {
			c.spoil()
		}
		for _, a := range t.atoms {
			a.ready = false
		}
		for _, n := range t.vectors {
			n.ready = false
		}
		return
	}
	for row, document := range v.nodes {
		if document == before[row] {
			continue
		}
		changed := document.since(before[row])
		for _, c := range t.columns {
			if c.ready && c.from&changed != 0 {
				t.updates++
				c.load(t, row)
			}
		}
	}
	for _, c := range t.columns {
		if c.ready {
			c.ensure(t) // the time, or what a source answers, may be another
		}
	}
	for _, p := range t.programs {
		if p != nil && p.tick == t.tick-1 {
			p.decide(t) // once for all decisions, none of which has to wait for it
		}
	}
}

// cellsOf reads a row, until it is called again.
func (t *table) cellsOf(row int) *rowCells {
	t.cells.row = row
	return &t.cells
}

func sameNodes(a, b []*document) bool {
	return slices.EqualFunc(a, b, func(x, y *document) bool { return x == y || x.node.ID == y.node.ID })
}

// since says what differs from an older document of the same node.
func (d *document) since(old *document) part {
	var changed part
	if d.node.Version == 0 || d.node.Version != old.node.Version {
		changed |= itself
	}
	if d.node.Telemetry != old.node.Telemetry {
		changed |= telemetry
	}
	if d.node.Projection != old.node.Projection {
		changed |= projected
	}
	if len(d.residents) != len(old.residents) || len(d.residents) > 0 && &d.residents[0] != &old.residents[0] {
		changed |= held
	}
	return changed
}

// roots are the things besides node and workload that something reads.
type roots struct {
	now     bool
	cluster bool
	sources []string
}

// unchanged reports whether they are the same.
func (r roots) unchanged(a, b *surroundings) bool {
	if a == nil || r.now && a.now != b.now || r.cluster && a.cluster != b.cluster {
		return false
	}
	return !slices.ContainsFunc(r.sources, func(name string) bool { return a.sources[name] != b.sources[name] })
}

func (r roots) any() bool { return r.now || r.cluster || len(r.sources) > 0 }

// noContext is for builtins, which want one: none that is admitted waits.
func noContext() context.Context { return context.Background() }
