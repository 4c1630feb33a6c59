package closures

import (
	"encoding/json"
	"fmt"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/ir"
)

// compiler turns statements into closures. Its first error stays.
type compiler struct {
	program *Program
	strings []*ast.Term
	externs map[string]*ast.Builtin
	err     error
}

func (c *compiler) blocks(blocks []*ir.Block) []op {
	out := make([]op, len(blocks))
	for i, block := range blocks {
		out[i] = c.block(block)
	}
	return out
}

func (c *compiler) block(block *ir.Block) op {
	var ops []op
	if block != nil {
		for _, stmt := range block.Stmts {
			if compiled := c.statement(stmt); compiled != nil {
				ops = append(ops, compiled)
			}
		}
	}
	if len(ops) == 1 {
		return ops[0]
	}
	return func(m *machine) int {
		for _, o := range ops {
			if to := o(m); to != next {
				return to
			}
		}
		return next
	}
}

func (c *compiler) statement(stmt ir.Stmt) op {
	for _, kind := range []func(ir.Stmt) (op, bool){c.control, c.make, c.assign, c.test, c.change, c.lookUp} {
		if compiled, known := kind(stmt); known {
			return compiled
		}
	}
	if c.err == nil {
		c.err = fmt.Errorf("statement %T: %w", stmt, errUnknown)
	}
	return nil
}

// value reads an operand.
type value func(m *machine) ast.Value

func (c *compiler) operand(o ir.Operand) value {
	switch x := o.Value.(type) {
	case *ir.Local: // from JSON, as are the other pointers
		return c.operand(ir.Operand{Value: *x})
	case *ir.StringIndex:
		return c.operand(ir.Operand{Value: *x})
	case *ir.Bool:
		return c.operand(ir.Operand{Value: *x})
	case ir.Local:
		return func(m *machine) ast.Value { return m.local[x] }
	case ir.StringIndex:
		return constant(c.strings[x].Value)
	case ir.Bool:
		return constant(ast.InternedTerm(bool(x)).Value)
	}
	if c.err == nil {
		c.err = fmt.Errorf("operand %T: %w", o.Value, errUnknown)
	}
	return constant(nil)
}

func constant(v ast.Value) value { return func(*machine) ast.Value { return v } }

func (c *compiler) operands(list []ir.Operand) []value {
	out := make([]value, len(list))
	for i, o := range list {
		out[i] = c.operand(o)
	}
	return out
}

// number is a constant that OPA keeps as text.
func (c *compiler) number(index int) ast.Value {
	return ast.Number(json.Number(string(c.strings[index].Value.(ast.String))))
}

// set makes a statement that sets a local and never fails.
func set(target ir.Local, v value) op {
	return func(m *machine) int { m.local[target] = v(m); return next }
}

// make compiles what makes new values.
func (c *compiler) make(stmt ir.Stmt) (op, bool) {
	switch x := stmt.(type) {
	case *ir.MakeNullStmt:
		return set(x.Target, constant(ast.NullValue)), true
	case *ir.MakeNumberIntStmt:
		return set(x.Target, constant(ast.InternedTerm(int(x.Value)).Value)), true
	case *ir.MakeNumberRefStmt:
		return set(x.Target, constant(c.number(x.Index))), true
	case *ir.MakeArrayStmt:
		return set(x.Target, func(*machine) ast.Value { return ast.NewArray() }), true
	case *ir.MakeObjectStmt:
		return set(x.Target, func(*machine) ast.Value { return ast.NewObject() }), true
	case *ir.MakeSetStmt:
		return set(x.Target, func(*machine) ast.Value { return ast.NewSet() }), true
	}
	return nil, false
}

// assign compiles what gives locals their values.
func (c *compiler) assign(stmt ir.Stmt) (op, bool) {
	switch x := stmt.(type) {
	case *ir.AssignIntStmt:
		return set(x.Target, constant(ast.InternedTerm(int(x.Value)).Value)), true
	case *ir.AssignVarStmt:
		return set(x.Target, c.operand(x.Source)), true
	case *ir.ResetLocalStmt:
		return set(x.Target, constant(nil)), true
	case *ir.AssignVarOnceStmt:
		source, target := c.operand(x.Source), int(x.Target)
		return func(m *machine) int {
			v := source(m)
			if have := m.local[target]; have != nil && ast.Compare(have, v) != 0 {
				return m.fail(fmt.Errorf("two values for one rule: %v and %v", have, v))
			}
			m.local[target] = v
			return next
		}, true
	}
	return nil, false
}

// test compiles what goes on only if something holds.
func (c *compiler) test(stmt ir.Stmt) (op, bool) {
	switch x := stmt.(type) {
	case *ir.EqualStmt:
		a, b := c.operand(x.A), c.operand(x.B)
		return when(func(m *machine) bool { return ast.Compare(a(m), b(m)) == 0 }), true
	case *ir.NotEqualStmt:
		a, b := c.operand(x.A), c.operand(x.B)
		return when(func(m *machine) bool { return ast.Compare(a(m), b(m)) != 0 }), true
	case *ir.IsArrayStmt:
		return isA[*ast.Array](c.operand(x.Source)), true
	case *ir.IsObjectStmt:
		return isA[ast.Object](c.operand(x.Source)), true
	case *ir.IsSetStmt:
		return isA[ast.Set](c.operand(x.Source)), true
	case *ir.IsDefinedStmt:
		return when(func(m *machine) bool { return m.local[x.Source] != nil }), true
	case *ir.IsUndefinedStmt:
		return when(func(m *machine) bool { return m.local[x.Source] == nil }), true
	}
	return nil, false
}

func when(holds func(m *machine) bool) op {
	return func(m *machine) int {
		if holds(m) {
			return next
		}
		return leave
	}
}

func isA[T ast.Value](v value) op {
	return when(func(m *machine) bool { _, ok := v(m).(T); return ok })
}
