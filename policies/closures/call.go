package closures

import (
	"fmt"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/ir"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// call compiles a call of a rule, a function or a builtin.
func (c *compiler) call(x *ir.CallStmt) op {
	args, result := c.operands(x.Args), int(x.Result)
	if f, ok := c.program.functions[x.Func]; ok {
		return func(m *machine) int {
			var few [4]ast.Value
			return m.give(result, m.call(f, read(m, args, few[:0])))
		}
	}
	if holds, ok := Comparison(x.Func); ok && len(args) == 2 {
		yes, no := ast.InternedTerm(true).Value, ast.InternedTerm(false).Value
		return func(m *machine) int {
			m.local[result] = no
			if holds(ast.Compare(args[0](m), args[1](m))) {
				m.local[result] = yes
			}
			return next
		}
	}
	declared, known := c.externs[x.Func]
	implementation := topdown.GetBuiltin(x.Func)
	if !known || implementation == nil {
		if c.err == nil {
			c.err = fmt.Errorf("builtin %s: %w", x.Func, errUnknown)
		}
		return nil
	}
	return builtin(declared, implementation, args, result)
}

// give sets a local, or leaves the block when there is nothing to set.
func (m *machine) give(local int, v ast.Value) int {
	switch {
	case m.err != nil:
		return returned
	case v == nil:
		return leave
	}
	m.local[local] = v
	return next
}

func read(m *machine, operands []value, into []ast.Value) []ast.Value {
	for _, operand := range operands {
		into = append(into, operand(m))
	}
	return into
}

// Comparison reports which results of ast.Compare an operator accepts.
func Comparison(name string) (func(int) bool, bool) {
	switch name {
	case "gt":
		return func(n int) bool { return n > 0 }, true
	case "gte":
		return func(n int) bool { return n >= 0 }, true
	case "lt":
		return func(n int) bool { return n < 0 }, true
	case "lte":
		return func(n int) bool { return n <= 0 }, true
	case "equal", "eq":
		return func(n int) bool { return n == 0 }, true
	case "neq":
		return func(n int) bool { return n != 0 }, true
	}
	return nil, false
}

// builtin calls one of OPA's. One that relates gives any number of values,
// which plans take as an array.
func builtin(declared *ast.Builtin, implementation topdown.BuiltinFunc, args []value, result int) op {
	void := declared.Decl.Result() == nil
	return func(m *machine) int {
		terms := make([]*ast.Term, len(args))
		for i, arg := range args {
			terms[i] = ast.NewTerm(arg(m))
		}
		var given []*ast.Term
		err := implementation(m.builtin, terms, func(t *ast.Term) error {
			given = append(given, t)
			return nil
		})
		switch {
		case err != nil:
			return m.fail(err)
		case declared.Relation:
			m.local[result] = ast.NewArray(given...)
			return next
		case void:
			return next
		case len(given) == 0:
			return leave
		}
		m.local[result] = given[len(given)-1].Value
		return next
	}
}

// callByPath compiles a call of the rule whose path is known only then.
func (c *compiler) callByPath(x *ir.CallDynamicStmt) op {
	path, result := c.operands(x.Path), int(x.Result)
	return func(m *machine) int {
		names := make([]string, len(path))
		for i, part := range path {
			name, ok := part(m).(ast.String)
			if !ok {
				return leave
			}
			names[i] = string(name)
		}
		f, ok := c.program.paths[strings.Join(names, "\x00")]
		if !ok {
			return leave
		}
		args := make([]ast.Value, len(x.Args))
		for i, arg := range x.Args {
			args[i] = m.local[arg]
		}
		return m.give(result, m.call(f, args))
	}
}
