package closures

import (
	"fmt"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/ir"
)

// control compiles what says which statement is next.
func (c *compiler) control(stmt ir.Stmt) (op, bool) {
	switch x := stmt.(type) {
	case *ir.NopStmt:
		return nil, true
	case *ir.ReturnLocalStmt:
		return func(*machine) int { return returned }, true
	case *ir.BreakStmt:
		return func(*machine) int { return int(x.Index) }, true
	case *ir.BlockStmt:
		return nested(c.blocks(x.Blocks)), true
	case *ir.NotStmt:
		if openEnded(x.Block) && c.err == nil {
			c.err = fmt.Errorf("not of what may hold in several ways: %w", errUnknown)
		}
		return not(c.block(x.Block)), true
	case *ir.ScanStmt:
		return scan(int(x.Source), int(x.Key), int(x.Value), c.block(x.Block)), true
	case *ir.WithStmt:
		return c.with(x), true
	case *ir.CallStmt:
		return c.call(x), true
	case *ir.CallDynamicStmt:
		return c.callByPath(x), true
	}
	return nil, false
}

// nested runs blocks one after another, whether or not each runs to its end.
func nested(blocks []op) op {
	return func(m *machine) int {
		for _, block := range blocks {
			switch to := block(m); {
			case to == returned:
				return returned
			case to > leave:
				return to - 1
			}
		}
		return next
	}
}

func not(block op) op {
	return func(m *machine) int {
		switch to := block(m); {
		case to == next:
			return leave
		case to == leave:
			return next
		case to == returned:
			return returned
		default:
			return to - 1
		}
	}
}

// openEnded reports whether a block ends in what goes on after it whether or not
// anything in it held. OPA plans negations of references to several rules, and of
// walk, as if it did not, and negates them all.
func openEnded(block *ir.Block) bool {
	if block == nil || len(block.Stmts) == 0 {
		return false
	}
	switch last := block.Stmts[len(block.Stmts)-1].(type) {
	case *ir.ScanStmt, *ir.BlockStmt:
		return true
	case *ir.WithStmt:
		return openEnded(last.Block)
	}
	return false
}

// scan runs its block for each element.
func scan(source, key, val int, block op) op {
	return func(m *machine) int {
		result := next
		each := func(k, v ast.Value) (stop bool) {
			if !m.step() {
				result = returned
				return true
			}
			m.local[key], m.local[val] = k, v
			switch to := block(m); {
			case to == returned:
				result = returned
			case to > leave:
				result = to - 1
			default:
				return false
			}
			return true
		}
		if !iterate(m.local[source], each) {
			return leave
		}
		return result
	}
}

// iterate reports whether there is anything that could be iterated over.
func iterate(v ast.Value, each func(key, value ast.Value) (stop bool)) bool {
	switch v := v.(type) {
	case *ast.Array:
		for i := range v.Len() {
			if each(ast.InternedTerm(i).Value, v.Elem(i).Value) {
				break
			}
		}
	case ast.Object:
		v.Until(func(key, value *ast.Term) bool { return each(key.Value, value.Value) })
	case ast.Set:
		v.Until(func(element *ast.Term) bool { return each(element.Value, element.Value) })
	default:
		return false
	}
	return true
}

// with replaces a part of input or data while its block runs.
func (c *compiler) with(x *ir.WithStmt) op {
	block, replacement, local := c.block(x.Block), c.operand(x.Value), int(x.Local)
	path := make([]*ast.Term, len(x.Path))
	for i, index := range x.Path {
		path[i] = c.strings[index]
	}
	return func(m *machine) int {
		before := m.local[local]
		m.local[local] = replace(before, path, replacement(m))
		m.replaced++
		to := block(m)
		m.replaced--
		m.local[local] = before
		if to > leave {
			return to - 1
		}
		return to
	}
}

// replace is v with what is at a path replaced, and made where it is missing.
func replace(v ast.Value, path []*ast.Term, by ast.Value) ast.Value {
	if len(path) == 0 {
		return by
	}
	out := ast.NewObject()
	var inner ast.Value
	if object, ok := v.(ast.Object); ok {
		object.Foreach(func(key, value *ast.Term) { out.Insert(key, value) })
		if old := object.Get(path[0]); old != nil {
			inner = old.Value
		}
	}
	out.Insert(path[0], ast.NewTerm(replace(inner, path[1:], by)))
	return out
}
