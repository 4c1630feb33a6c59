package closures

import (
	"fmt"
	"unicode/utf8"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/ir"
)

// change compiles what adds to values that the plan has made itself.
func (c *compiler) change(stmt ir.Stmt) (op, bool) {
	switch x := stmt.(type) {
	case *ir.ArrayAppendStmt:
		element := c.operand(x.Value)
		return func(m *machine) int {
			m.local[x.Array] = m.local[x.Array].(*ast.Array).Append(ast.NewTerm(element(m)))
			return next
		}, true
	case *ir.SetAddStmt:
		element := c.operand(x.Value)
		return func(m *machine) int {
			m.local[x.Set].(ast.Set).Add(ast.NewTerm(element(m)))
			return next
		}, true
	case *ir.ObjectInsertStmt:
		return insert(int(x.Object), c.operand(x.Key), c.operand(x.Value), false), true
	case *ir.ObjectInsertOnceStmt:
		return insert(int(x.Object), c.operand(x.Key), c.operand(x.Value), true), true
	case *ir.ObjectMergeStmt:
		return merge(int(x.A), int(x.B), int(x.Target)), true
	case *ir.ResultSetAddStmt:
		return func(m *machine) int {
			m.results = append(m.results, m.local[x.Value])
			return next
		}, true
	}
	return nil, false
}

func insert(object int, key, val value, once bool) op {
	return func(m *machine) int {
		into, k, v := m.local[object].(ast.Object), ast.NewTerm(key(m)), ast.NewTerm(val(m))
		if once {
			if have := into.Get(k); have != nil && !have.Equal(v) {
				return m.fail(fmt.Errorf("two values for one key: %v", k))
			}
		}
		into.Insert(k, v)
		return next
	}
}

// merge joins what data holds at a path and what rules give there.
func merge(a, b, target int) op {
	return func(m *machine) int {
		left, isLeft := m.local[a].(ast.Object)
		right, isRight := m.local[b].(ast.Object)
		if !isLeft || !isRight {
			return m.fail(fmt.Errorf("merge of %v with %v: %w", m.local[a], m.local[b], errUnknown))
		}
		merged, ok := left.Merge(right)
		if !ok {
			return m.fail(fmt.Errorf("merge of %v with %v: two values for one key", left, right))
		}
		m.local[target] = merged
		return next
	}
}

// lookUp compiles what reads a part of a value.
func (c *compiler) lookUp(stmt ir.Stmt) (op, bool) {
	switch x := stmt.(type) {
	case *ir.DotStmt:
		return c.dot(x), true
	case *ir.LenStmt:
		source, target := c.operand(x.Source), int(x.Target)
		return func(m *machine) int {
			n := length(source(m))
			if n < 0 {
				return leave
			}
			m.local[target] = ast.InternedTerm(n).Value
			return next
		}, true
	}
	return nil, false
}

func (c *compiler) dot(x *ir.DotStmt) op {
	source, target := c.operand(x.Source), int(x.Target)
	if index, ok := stringIndex(x.Key); ok {
		key := c.strings[index]
		return func(m *machine) int { return m.give(target, Get(source(m), key)) }
	}
	key := c.operand(x.Key)
	return func(m *machine) int {
		from, k := source(m), ast.NewTerm(key(m))
		found := Get(from, k)
		if found == nil && numbered(from, k) {
			return m.fail(fmt.Errorf("key %v of data: %w", k, errUnknown))
		}
		return m.give(target, found)
	}
}

func stringIndex(o ir.Operand) (ir.StringIndex, bool) {
	if index, ok := o.Value.(*ir.StringIndex); ok {
		return *index, true
	}
	index, ok := o.Value.(ir.StringIndex)
	return index, ok
}

// numbered reports whether a number is asked for where its text is a key: OPA
// finds that in data, but nowhere else.
func numbered(v ast.Value, key *ast.Term) bool {
	number, isNumber := key.Value.(ast.Number)
	object, isObject := v.(ast.Object)
	return isNumber && isObject && object.Get(ast.StringTerm(string(number))) != nil
}

// Get is what a value holds under a key, as a reference reads it; nil means
// nothing.
func Get(v ast.Value, key *ast.Term) ast.Value {
	switch v := v.(type) {
	case ast.Object:
		if found := v.Get(key); found != nil {
			return found.Value
		}
	case *ast.Array:
		if n, ok := key.Value.(ast.Number); ok {
			if i, ok := n.Int(); ok && i >= 0 && i < v.Len() {
				return v.Elem(i).Value
			}
		}
	case ast.Set:
		if v.Contains(key) {
			return key.Value
		}
	}
	return nil
}

// length is -1 for what has none.
func length(v ast.Value) int {
	switch v := v.(type) {
	case *ast.Array:
		return v.Len()
	case ast.Object:
		return v.Len()
	case ast.Set:
		return v.Len()
	case ast.String:
		return utf8.RuneCountInString(string(v))
	}
	return -1
}
