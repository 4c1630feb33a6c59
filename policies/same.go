package policies

import "github.com/open-policy-agent/opa/v1/ast"

// same reports whether two values are the same to every policy, or both none. To
// OPA 1 and 1.0 are equal, but a policy can tell them apart by their texts.
func same(x, y ast.Value) bool {
	switch x := x.(type) {
	case nil:
		return y == nil
	case ast.Number:
		other, ok := y.(ast.Number)
		return ok && x == other
	case *ast.Array:
		other, ok := y.(*ast.Array)
		return ok && (x == other || sameElements(x, other))
	case ast.Object:
		other, ok := y.(ast.Object)
		return ok && (x == other || sameEntries(x, other))
	case ast.Set:
		other, ok := y.(ast.Set)
		return ok && (x == other || sameElements(ast.NewArray(x.Slice()...), ast.NewArray(other.Slice()...)))
	}
	return y != nil && ast.Compare(x, y) == 0
}

func sameElements(x, y *ast.Array) bool {
	if x.Len() != y.Len() {
		return false
	}
	for i := range x.Len() {
		if !same(x.Elem(i).Value, y.Elem(i).Value) {
			return false
		}
	}
	return true
}

func sameEntries(x, y ast.Object) bool {
	keys, others := x.Keys(), y.Keys() // sorted
	if len(keys) != len(others) {
		return false
	}
	for i, key := range keys {
		if !same(key.Value, others[i].Value) || !same(x.Get(key).Value, y.Get(key).Value) {
			return false
		}
	}
	return true
}
