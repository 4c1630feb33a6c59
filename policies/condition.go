package policies

import (
	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/psgrid/psg/policies/closures"
)

// atoms finds or makes the atoms of a condition; none means that it always
// holds.
func (g *grower) atoms(c condition) ([]*atom, error) {
	if c.expr == nil {
		return g.defined(c.defined)
	}
	test, key, trees, err := g.test(c.expr)
	if err != nil {
		return nil, err
	}
	return []*atom{g.table.atom(key, test, trees)}, nil
}

// defined are the atoms of a term that has to have a value: of what it is made
// of, where that is enough.
func (g *grower) defined(term *ast.Term) ([]*atom, error) {
	switch v := term.Value.(type) {
	case ast.Call:
		if certain(v[0].String()) {
			return g.eachDefined(v[1:])
		}
	case *ast.Array:
		elements := make([]*ast.Term, v.Len())
		for i := range elements {
			elements[i] = v.Elem(i)
		}
		return g.eachDefined(elements)
	case *ast.ArrayComprehension, *ast.SetComprehension:
		return nil, nil
	case ast.Ref:
		if inlined, ok := g.residual.inlined(v); ok {
			return g.defined(inlined)
		}
	}
	grown, err := g.term(term)
	if err != nil || grown.fixed != nil {
		return nil, err
	}
	return []*atom{g.table.atom("defined "+grown.key, func(c cells) (bool, error) {
		v, err := grown.eval(c)
		return v != nil, err
	}, []*tree{grown})}, nil
}

func (g *grower) eachDefined(terms []*ast.Term) ([]*atom, error) {
	var all []*atom
	for _, term := range terms {
		atoms, err := g.defined(term)
		if err != nil {
			return nil, err
		}
		all = append(all, atoms...)
	}
	return all, nil
}

// test makes the test of an expression.
func (g *grower) test(expr *ast.Expr) (func(cells) (bool, error), string, []*tree, error) {
	if expr.Negated && len(expr.With) == 0 {
		plain := expr.Copy()
		plain.Negated = false
		inner, key, trees, err := g.test(plain)
		if err != nil {
			return nil, "", nil, err
		}
		return func(c cells) (bool, error) {
			holds, err := inner(c)
			return !holds && err == nil, err
		}, "not " + key, trees, nil
	}
	if len(expr.With) == 0 {
		if term, ok := expr.Terms.(*ast.Term); ok {
			return g.truth(term)
		}
		if expr.IsCall() {
			return g.callTest(expr)
		}
	}
	grown, err := g.unit(nil, ast.NewBody(expr))
	if err != nil {
		return nil, "", nil, err
	}
	return truthOf(grown), "holds " + grown.key, []*tree{grown}, nil
}

func (g *grower) truth(term *ast.Term) (func(cells) (bool, error), string, []*tree, error) {
	grown, err := g.term(term)
	if err != nil {
		return nil, "", nil, err
	}
	return truthOf(grown), "holds " + grown.key, []*tree{grown}, nil
}

// truthOf is whether a value is defined and other than false.
func truthOf(grown *tree) func(cells) (bool, error) {
	no := ast.Boolean(false)
	return func(c cells) (bool, error) {
		v, err := grown.eval(c)
		return v != nil && v != no && err == nil, err
	}
}

// callTest makes the test of a call: a comparison, a call whose result has to
// be something other than false, or one whose result has to be a given value.
func (g *grower) callTest(expr *ast.Expr) (func(cells) (bool, error), string, []*tree, error) {
	name, args := operator(expr), expr.Operands()
	if holds, ok := closures.Comparison(name); ok && len(args) == 2 {
		return g.comparison(name, holds, args)
	}
	call := ast.NewTerm(ast.Call(append([]*ast.Term{expr.OperatorTerm()}, args...)))
	if builtin := ast.BuiltinMap[name]; builtin != nil && len(args) == len(builtin.Decl.FuncArgs().Args)+1 {
		last := len(args) - 1
		call = ast.NewTerm(ast.Call(append([]*ast.Term{expr.OperatorTerm()}, args[:last]...)))
		equal, _ := closures.Comparison("equal")
		return g.comparison("equal", equal, []*ast.Term{call, args[last]})
	} else if builtin == nil || builtin.Relation {
		grown, err := g.unit(nil, ast.NewBody(expr))
		if err != nil {
			return nil, "", nil, err
		}
		return truthOf(grown), "holds " + grown.key, []*tree{grown}, nil
	}
	return g.truth(call)
}

func (g *grower) comparison(name string, holds func(int) bool, args []*ast.Term) (func(cells) (bool, error), string, []*tree, error) {
	trees, keys, err := g.terms(args)
	if err != nil {
		return nil, "", nil, err
	}
	key := name + "(" + keys[0] + ", " + keys[1] + ")"
	fast := compareNumbers(trees[0], trees[1], holds)
	return func(c cells) (bool, error) {
		if at, ok := c.(*rowCells); ok && fast != nil {
			if holds, sure := fast(at.row); sure {
				return holds, nil
			}
		}
		x, err := trees[0].eval(c)
		if err != nil || x == nil {
			return false, err
		}
		y, err := trees[1].eval(c)
		if err != nil || y == nil {
			return false, err
		}
		return holds(ast.Compare(x, y)), nil
	}, key, trees, nil
}

// compareNumbers compares approximations where these are enough; nil where
// there are none.
func compareNumbers(x, y *tree, holds func(int) bool) func(row int) (holds, sure bool) {
	a, b := x.approximation(), y.approximation()
	if a == nil || b == nil {
		return nil
	}
	return func(row int) (bool, bool) {
		order, sure := a(row).compare(b(row))
		return sure && holds(order), sure
	}
}
