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
		switch have := into.Get(k); {
		case have == nil || !once && grown(have.Value, v.Value):
		case !once: // OPA keeps both, of an object whose keys it finds out late
			return m.fail(fmt.Errorf("key %v twice in an object: %w", k, errUnknown))
		case !have.Equal(v):
			return m.fail(fmt.Errorf("two values for one key: %v", k))
		}
		into.Insert(k, v)
		return next
	}
}

// grown reports whether an element is there again since it was added to: plans
// put a set or object back where they found it.
func grown(before, now ast.Value) bool {
	switch now.(type) {
	case ast.Set, ast.Object:
		return before == now
	}
	return false
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
	source, target, key := c.operand(x.Source), int(x.Target), c.key(x.Key)
	return func(m *machine) int {
		found, err := OfData(source(m), key(m))
		if err != nil {
			return m.fail(err)
		}
		return m.give(target, found)
	}
}

// key reads an operand as the term that values are asked for.
func (c *compiler) key(o ir.Operand) func(m *machine) *ast.Term {
	if index, ok := stringIndex(o); ok {
		text := c.strings[index] // one term for all evaluations
		return func(*machine) *ast.Term { return text }
	}
	of := c.operand(o)
	return func(m *machine) *ast.Term { return ast.NewTerm(of(m)) }
}

func stringIndex(o ir.Operand) (ir.StringIndex, bool) {
	if index, ok := o.Value.(*ir.StringIndex); ok {
		return *index, true
	}
	index, ok := o.Value.(ir.StringIndex)
	return index, ok
}

// OfData is what a value holds under a key, if it may be of data; nil means
// nothing. There, and nowhere else, OPA takes a number and its text for one key:
// the error says that only OPA can tell.
func OfData(v ast.Value, key *ast.Term) (ast.Value, error) {
	found := Get(v, key)
	if found == nil && otherwiseFound(v, key.Value) {
		return nil, fmt.Errorf("key %v of data: %w", key, errUnknown)
	}
	return found, nil
}

// otherwiseFound reports whether a value has something under the text of a
// number, or the number of a text.
func otherwiseFound(v, key ast.Value) bool {
	switch key := key.(type) {
	case ast.Number:
		object, ok := v.(ast.Object)
		return ok && object.Get(ast.StringTerm(string(key))) != nil
	case ast.String:
		list, ok := v.(*ast.Array)
		return ok && list.Get(ast.NewTerm(ast.Number(key))) != nil
	}
	return false
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
