package policies

import (
	"slices"
	"sync/atomic"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/hclspec"
)

// document is input.node of one node at one moment. Its parts are made when
// they are first read, each once. It copies what it is made from: it must not
// keep whole snapshots alive.
type document struct {
	node       psg.Node
	residents  []resident
	aggregates []hclspec.Aggregate
	parts      [fieldCount]atomic.Pointer[ast.Term]
	whole      atomic.Pointer[ast.Term]
	// What residents are to Rego: as far as it is known from before, and once
	// all of it is made.
	known []*ast.Term
	made  atomic.Pointer[[]*ast.Term]
}

// resident is one placement on a node and the workload it belongs to, nil where
// that is not known.
type resident struct {
	placement *psg.Placement
	workload  *psg.Workload
}

// part is a set of the things that the fields of a node are made of, and that
// change apart from one another.
type part uint8

const (
	itself    part = 1 << iota // the node as its orchestrator knows it
	telemetry                  // what was observed
	projected
	held // residents
)

// nodeField is one field of input.node.
type nodeField struct {
	name string
	from part
	make func(d *document) *ast.Term
}

// fieldCount is how many fields input.node has.
const fieldCount = 18

var nodeFields = [fieldCount]nodeField{
	{"id", itself, func(d *document) *ast.Term { return text(d.node.ID) }},
	{"name", itself, func(d *document) *ast.Term { return text(d.node.Name) }},
	{"region", itself, func(d *document) *ast.Term { return text(d.node.Region) }},
	{"datacenter", itself, func(d *document) *ast.Term { return text(d.node.Datacenter) }},
	{"domain", itself, func(d *document) *ast.Term { return text(domain(&d.node)) }},
	{"class", itself, func(d *document) *ast.Term { return text(d.node.Class) }},
	{"pool", itself, func(d *document) *ast.Term { return text(d.node.Pool) }},
	{"ready", itself, func(d *document) *ast.Term { return ast.InternedTerm(d.node.Ready) }},
	{"attributes", itself, func(d *document) *ast.Term { return stringMap(d.node.Attributes) }},
	{"meta", itself, func(d *document) *ast.Term { return stringMap(d.node.Meta) }},
	{"capacity", itself, (*document).capacity},
	{"free", itself | held, (*document).free},
	{"devices", itself | held, (*document).devices},
	{"workloads", itself | held, (*document).workloads},
	{"agg", held, func(d *document) *ast.Term { return counts(d.residents, d.aggregates) }},
	{"telemetry", telemetry, func(d *document) *ast.Term { return metrics(d.node.Telemetry) }},
	{"observed_at", telemetry, func(d *document) *ast.Term { return observedAt(d.node.Telemetry) }},
	{"projection", projected, func(d *document) *ast.Term { return projection(d.node.Projection) }},
}

// fieldIndex finds a field of input.node by its name.
func fieldIndex(name string) (int, bool) {
	i := slices.IndexFunc(nodeFields[:], func(f nodeField) bool { return f.name == name })
	return i, i >= 0
}

// field is one field, by its index.
func (d *document) field(i int) *ast.Term {
	if made := d.parts[i].Load(); made != nil {
		return made
	}
	made := nodeFields[i].make(d)
	d.parts[i].Store(made)
	return made
}

// value is the whole of input.node.
func (d *document) value() *ast.Term {
	if made := d.whole.Load(); made != nil {
		return made
	}
	fields := make([][2]*ast.Term, len(nodeFields))
	for i := range nodeFields {
		fields[i] = field(nodeFields[i].name, d.field(i))
	}
	made := ast.ObjectTerm(fields...)
	d.whole.Store(made)
	return made
}

// newDocument copies a node; residents must not change any more.
func newDocument(node *psg.Node, residents []resident, aggregates []hclspec.Aggregate) *document {
	return &document{node: *node, residents: residents, aggregates: aggregates}
}

// next is the document of the same node later on. It takes over the fields that
// are made of nothing that changed, and is d itself if nothing did.
func (d *document) next(node *psg.Node, residents []resident) *document {
	changed := d.changed(node, residents)
	if changed == 0 {
		return d
	}
	if changed&held == 0 {
		residents = d.residents
	}
	out := newDocument(node, residents, d.aggregates)
	if changed&itself == 0 {
		out.known = d.shared(residents)
	}
	for i := range nodeFields {
		if nodeFields[i].from&changed == 0 {
			out.parts[i].Store(d.parts[i].Load())
		}
	}
	return out
}

// shared are the terms of residents that a later document has in common with
// this one; nil where it has not.
func (d *document) shared(residents []resident) []*ast.Term {
	made := d.made.Load()
	if made == nil {
		return nil
	}
	terms := make([]*ast.Term, len(residents))
	old := 0
	for i, r := range residents {
		// Both are in the order of requests, but for what a sequel adds.
		for old < len(d.residents) && d.residents[old].placement.Ask.ID < r.placement.Ask.ID {
			old++
		}
		if old < len(d.residents) && r.same(d.residents[old]) {
			terms[i] = (*made)[old]
		}
	}
	return terms
}

// changed says what a document must be made anew from. A version of 0 promises
// nothing.
func (d *document) changed(node *psg.Node, residents []resident) part {
	var changed part
	if node.Version == 0 || node.Version != d.node.Version {
		changed |= itself
	}
	if node.Telemetry != d.node.Telemetry {
		changed |= telemetry
	}
	if node.Projection != d.node.Projection {
		changed |= projected
	}
	if !slices.EqualFunc(residents, d.residents, resident.same) {
		changed |= held
	}
	return changed
}

func (r resident) same(other resident) bool {
	p, q := r.placement, other.placement
	if p != q && (p.Ask != q.Ask || p.State != q.State || p.Request != q.Request || !slices.Equal(p.Devices, q.Devices)) {
		return false
	}
	if r.workload == nil || other.workload == nil {
		return r.workload == other.workload
	}
	return r.workload.Version != 0 && r.workload.Version == other.workload.Version
}
