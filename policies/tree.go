package policies

import (
	"fmt"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/psgrid/psg/policies/closures"
)

// tree evaluates one term without variables on one row.
type tree struct {
	key     string // trees with the same key give the same
	eval    func(c cells) (ast.Value, error)
	columns []*column // that it reads
	params  []*param
	fixed   ast.Value // of a constant
	column  *column   // of what is just a column
	approx  func(row int) approx
}

// cells is where trees read: a row of the table, or of a view gone by. What is
// undefined is nil.
type cells interface {
	cell(c *column) (ast.Value, error)
	param(p *param) (ast.Value, error)
}

// grower makes trees of what partial evaluation left.
type grower struct {
	table    *table
	residual *residual
	workload *ast.Term // that it was left for
	class    string    // what the policy reads of it
}

func (g *grower) term(term *ast.Term) (*tree, error) {
	switch v := term.Value.(type) {
	case ast.Null, ast.Boolean, ast.Number, ast.String:
		return constantTree(v), nil
	case ast.Ref:
		return g.ref(v)
	case ast.Call:
		return g.call(v)
	case *ast.Array:
		return g.array(v)
	}
	if ast.IsConstant(term.Value) {
		return constantTree(term.Value), nil
	}
	return g.unit(term, nil)
}

func constantTree(v ast.Value) *tree {
	return &tree{key: v.String(), fixed: v, eval: func(cells) (ast.Value, error) { return v, nil }}
}

func (g *grower) ref(ref ast.Ref) (*tree, error) {
	names, plain := names(ref)
	switch {
	case plain && len(names) >= 3 && names[0] == "input" && names[1] == "node":
		if _, ok := fieldIndex(names[2]); ok {
			return columnTree(g.table.path(names[2:])), nil
		}
	case plain && len(names) == 2 && names[0] == "input" && names[1] == "now":
		return paramTree(g.table.timeParam()), nil
	case plain && len(names) >= 2 && names[0] == "data" && (names[1] == "cluster" || slices.Contains(g.residual.policy.reads.sources, names[1])):
		return paramTree(g.table.dataParam(names[1:])), nil
	}
	if term, ok := g.residual.inlined(ref); ok {
		return g.term(term)
	}
	return g.unit(ast.NewTerm(ref), nil)
}

// names are the parts of a reference that has constant strings only.
func names(ref ast.Ref) ([]string, bool) {
	out := make([]string, len(ref))
	for i, part := range ref {
		switch v := part.Value.(type) {
		case ast.Var:
			if i > 0 {
				return nil, false
			}
			out[i] = string(v)
		case ast.String:
			out[i] = string(v)
		default:
			return nil, false
		}
	}
	return out, true
}

func columnTree(c *column) *tree {
	return &tree{key: c.key, column: c, columns: []*column{c}, eval: func(at cells) (ast.Value, error) { return at.cell(c) }}
}

func paramTree(p *param) *tree {
	return &tree{key: p.key, params: []*param{p}, eval: func(at cells) (ast.Value, error) { return at.param(p) }}
}

// combine makes a tree of others; apply is called when all are defined.
func combine(key string, from []*tree, apply func(values []*ast.Term) (ast.Value, error)) *tree {
	out := &tree{key: key}
	for _, f := range from {
		out.columns = append(out.columns, f.columns...)
		out.params = append(out.params, f.params...)
	}
	out.eval = func(at cells) (ast.Value, error) {
		values := make([]*ast.Term, len(from))
		for i, f := range from {
			v, err := f.eval(at)
			if err != nil || v == nil {
				return nil, err
			}
			values[i] = ast.NewTerm(v)
		}
		return apply(values)
	}
	return out
}

func (g *grower) terms(terms []*ast.Term) ([]*tree, []string, error) {
	trees, keys := make([]*tree, len(terms)), make([]string, len(terms))
	for i, term := range terms {
		grown, err := g.term(term)
		if err != nil {
			return nil, nil, err
		}
		trees[i], keys[i] = grown, grown.key
	}
	return trees, keys, nil
}

func (g *grower) array(array *ast.Array) (*tree, error) {
	elements := make([]*ast.Term, array.Len())
	for i := range elements {
		elements[i] = array.Elem(i)
	}
	trees, keys, err := g.terms(elements)
	if err != nil {
		return nil, err
	}
	return combine("["+strings.Join(keys, ", ")+"]", trees, func(values []*ast.Term) (ast.Value, error) {
		return ast.NewArray(values...), nil
	}), nil
}

func (g *grower) call(call ast.Call) (*tree, error) {
	name := call[0].String()
	if ast.BuiltinMap[name] == nil || topdown.GetBuiltin(name) == nil && !comparing(name) {
		return g.unit(ast.NewTerm(call), nil)
	}
	trees, keys, err := g.terms(call[1:])
	if err != nil {
		return nil, err
	}
	grown := combine(name+"("+strings.Join(keys, ", ")+")", trees, applyBuiltin(name))
	grown.approx = approximateCall(name, trees)
	return grown, nil
}

func applyBuiltin(name string) func([]*ast.Term) (ast.Value, error) {
	if holds, ok := closures.Comparison(name); ok {
		return func(args []*ast.Term) (ast.Value, error) {
			return ast.InternedTerm(holds(ast.Compare(args[0].Value, args[1].Value))).Value, nil
		}
	}
	implementation, capabilities := topdown.GetBuiltin(name), deterministic()
	return func(args []*ast.Term) (ast.Value, error) {
		var given ast.Value
		err := implementation(topdown.BuiltinContext{Context: noContext(), Capabilities: capabilities}, args, func(t *ast.Term) error {
			given = t.Value
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return given, nil
	}
}
