package policies

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// flat is a body with its variables replaced by what they stand for: a
// conjunction of conditions, each on its own, and at most one group of
// expressions that hold together for some element of what they iterate over.
type flat struct {
	residual   *residual
	values     map[ast.Var]*ast.Term
	tainted    ast.VarSet // variables of the group
	conditions []condition
	group      ast.Body
}

// condition is one expression without free variables.
type condition struct {
	expr    *ast.Expr // what must hold; nil when only defined counts
	defined *ast.Term // what must be defined
}

// impliedBy reports whether the condition holds whenever a term is defined.
func (c condition) impliedBy(term *ast.Term) bool {
	if c.expr != nil {
		return false
	}
	if term.Equal(c.defined) {
		return true
	}
	switch v := term.Value.(type) {
	case ast.Ref:
		ref, ok := c.defined.Value.(ast.Ref)
		return ok && v.HasPrefix(ref)
	case ast.Call:
		return slices.ContainsFunc(v[1:], c.impliedBy)
	case *ast.Array:
		implied := false
		v.Foreach(func(element *ast.Term) { implied = implied || c.impliedBy(element) })
		return implied
	}
	return false
}

// flatten reads a body in its order. Whatever it does not recognise goes into
// the group, which means the same.
func (r *residual) flatten(body ast.Body) *flat {
	f := &flat{residual: r, values: map[ast.Var]*ast.Term{}, tainted: ast.NewVarSet()}
	for _, expr := range body {
		f.add(expr)
	}
	return f
}

func (f *flat) add(original *ast.Expr) {
	f.keepHeads(original)
	expr := f.replaceIn(original)
	free := freeVars(expr)
	to, value := binding(expr, free)
	switch {
	case !f.touches(expr) && to != "":
		f.values[to] = value
		f.conditions = append(f.conditions, condition{defined: value})
	case f.touches(expr) || len(free) > 0:
		f.join(expr)
	default:
		f.conditions = append(f.conditions, condition{expr: expr})
	}
}

// join adds an expression to the group.
func (f *flat) join(expr *ast.Expr) {
	f.group.Append(expr)
	f.tainted.Update(freeVars(expr))
}

// keepHeads moves into the group what cannot be replaced: a variable that a
// reference begins with and that stands for something other than a reference.
func (f *flat) keepHeads(expr *ast.Expr) {
	ast.WalkRefs(expr, func(ref ast.Ref) bool {
		head, ok := ref[0].Value.(ast.Var)
		if value, bound := f.values[head]; ok && bound && len(ref) > 1 {
			if _, isRef := value.Value.(ast.Ref); !isRef {
				delete(f.values, head)
				f.join(ast.Equality.Expr(ast.NewTerm(head), value))
			}
		}
		return false
	})
}

// touches reports whether an expression has variables of the group, within its
// closures too.
func (f *flat) touches(x any) bool {
	touched := false
	ast.WalkVars(x, func(v ast.Var) bool {
		touched = touched || f.tainted.Contains(v)
		return touched
	})
	return touched
}

// binding says which variable an expression sets, and to what; empty when it
// sets none. The variable must occur in it nowhere else.
func binding(expr *ast.Expr, free ast.VarSet) (ast.Var, *ast.Term) {
	if expr.Negated || len(expr.With) > 0 || !expr.IsCall() || len(free) != 1 {
		return "", nil
	}
	args := expr.Operands()
	name := operator(expr)
	if name == "eq" || name == "assign" {
		for i, term := range args {
			if v, ok := term.Value.(ast.Var); ok && !freeVars(args[1-i]).Contains(v) {
				return v, args[1-i]
			}
		}
		return "", nil
	}
	builtin := ast.BuiltinMap[name]
	if builtin == nil || builtin.Relation || len(args) != len(builtin.Decl.FuncArgs().Args)+1 {
		return "", nil
	}
	last := len(args) - 1
	v, ok := args[last].Value.(ast.Var)
	call := ast.Call(append([]*ast.Term{expr.OperatorTerm()}, args[:last]...))
	if !ok || freeVars(ast.NewTerm(call)).Contains(v) {
		return "", nil
	}
	return v, ast.NewTerm(call)
}

// freeVars are the variables of an expression or term, other than those that
// only its closures have, and less what every term may name.
func freeVars(x any) ast.VarSet {
	vars := ast.NewVarSet()
	visitor := ast.NewVarVisitor().WithParams(ast.VarVisitorParams{SkipRefCallHead: true, SkipClosures: true})
	visitor.Walk(x)
	for v := range visitor.Vars() {
		if !ast.RootDocumentNames.Contains(ast.NewTerm(v)) {
			vars.Add(v)
		}
	}
	return vars
}

// replace is a term with the variables replaced that have a value.
func (f *flat) replace(term *ast.Term) *ast.Term {
	out, err := ast.Transform(replacer(f.values), term.Copy())
	if err != nil {
		return term
	}
	switch out := out.(type) {
	case *ast.Term:
		return out
	case ast.Value:
		return ast.NewTerm(out)
	}
	return term
}

func (f *flat) replaceIn(expr *ast.Expr) *ast.Expr {
	out, err := ast.Transform(replacer(f.values), expr.Copy())
	if replaced, ok := out.(*ast.Expr); ok && err == nil {
		return replaced
	}
	return expr
}

// replacer puts values in the place of variables.
type replacer map[ast.Var]*ast.Term

func (r replacer) Transform(x any) (any, error) {
	switch x := x.(type) {
	case ast.Var:
		if value, ok := r[x]; ok {
			return value.Copy().Value, nil
		}
	case ast.Ref:
		if head, ok := x[0].Value.(ast.Var); ok {
			if value, bound := r[head]; bound {
				if ref, isRef := value.Value.(ast.Ref); isRef {
					return slices.Concat(ref.Copy(), x[1:]), nil
				}
			}
		}
	}
	return x, nil
}
