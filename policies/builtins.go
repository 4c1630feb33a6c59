package policies

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/types"
)

// certain are builtins that give a value whenever their arguments are of the
// types they are declared with. Others may err, or give nothing.
func certain(name string) bool {
	switch name {
	case "eq", "assign", "equal", "neq", "gt", "gte", "lt", "lte",
		"internal.member_2", "internal.member_3", "type_name",
		"is_number", "is_string", "is_boolean", "is_array", "is_set", "is_object", "is_null",
		"plus", "minus", "mul", "abs", "ceil", "floor", "round",
		"count", "sum", "sort", "sprintf", "concat", "contains", "startswith", "endswith", "lower", "upper",
		"trim", "trim_left", "trim_right", "trim_prefix", "trim_suffix", "trim_space", "split", "replace", "indexof",
		"object.get", "object.keys", "array.concat", "array.reverse", "and", "or", "regex.match", "div":
		return true
	}
	return false
}

// comparing builtins take anything.
func comparing(name string) bool {
	return slices.Contains([]string{"eq", "assign", "equal", "neq", "gt", "gte", "lt", "lte",
		"internal.member_2", "internal.member_3", "type_name",
		"is_number", "is_string", "is_boolean", "is_array", "is_set", "is_object", "is_null"}, name)
}

// mayBuiltinErr says why a call may err; empty means that it cannot.
func mayBuiltinErr(name string, args []*ast.Term, known *typer) string {
	builtin := ast.BuiltinMap[name]
	switch {
	case comparing(name):
		return ""
	case builtin == nil || !(certain(name) || name == "max" || name == "min"):
		return fmt.Sprintf("%s may fail", name)
	}
	for i, want := range builtin.Decl.FuncArgs().Args {
		if numeric := arithmetic(name); numeric {
			want = types.N
		}
		if !within(known.of(args[i]), want) {
			return fmt.Sprintf("%s may fail: argument %d (%v) is not certain to be %s", name, i+1, args[i], types.Sprint(want))
		}
	}
	return badConstant(name, args)
}

// arithmetic builtins take numbers or, some of them, sets, but no mixture.
func arithmetic(name string) bool {
	return slices.Contains([]string{"plus", "minus", "mul", "div"}, name)
}

// badConstant says which argument has to be a constant of some kind and is not.
func badConstant(name string, args []*ast.Term) string {
	switch name {
	case "sprintf":
		if _, ok := args[0].Value.(ast.String); !ok {
			return "sprintf may fail: its format is not a constant"
		}
	case "regex.match":
		pattern, ok := args[0].Value.(ast.String)
		if !ok {
			return "regex.match may fail: its pattern is not a constant"
		}
		if _, err := regexp.Compile(string(pattern)); err != nil {
			return "regex.match fails: its pattern is wrong"
		}
	case "div":
		divisor, ok := args[1].Value.(ast.Number)
		if !ok || divisor.Compare(ast.InternedTerm(0).Value) == 0 {
			return "division may fail: its divisor is not a constant other than 0"
		}
	}
	return ""
}

// within reports whether whatever is of type t is certain to be of type want.
func within(t, want types.Type) bool {
	if named, ok := want.(*types.NamedType); ok {
		want = named.Type
	}
	if named, ok := t.(*types.NamedType); ok {
		t = named.Type
	}
	if anyOf, ok := want.(types.Any); ok {
		return len(anyOf) == 0 || t != nil && slices.ContainsFunc(anyOf, func(member types.Type) bool { return within(t, member) }) || eachWithin(t, want)
	}
	switch t := t.(type) {
	case nil:
		return false
	case types.Any:
		return eachWithin(t, want)
	case *types.Array:
		array, ok := want.(*types.Array)
		return ok && arrayWithin(t, array)
	case *types.Set:
		set, ok := want.(*types.Set)
		return ok && within(t.Of(), set.Of())
	case *types.Object:
		object, ok := want.(*types.Object)
		return ok && objectWithin(t, object)
	}
	return types.Compare(t, want) == 0
}

// eachWithin reports whether all members of a union are within want.
func eachWithin(t, want types.Type) bool {
	union, ok := t.(types.Any)
	return ok && len(union) > 0 && !slices.ContainsFunc(union, func(member types.Type) bool { return !within(member, want) })
}

func arrayWithin(t, want *types.Array) bool {
	if want.Len() > 0 || want.Dynamic() == nil {
		return false
	}
	for i := range t.Len() {
		if !within(t.Select(i), want.Dynamic()) {
			return false
		}
	}
	return t.Dynamic() == nil || within(t.Dynamic(), want.Dynamic())
}

// objectWithin holds only for objects that may have any keys and values: all
// that builtins ask for.
func objectWithin(_, want *types.Object) bool {
	dynamic := want.DynamicProperties()
	return len(want.StaticProperties()) == 0 && dynamic != nil && within(nil, dynamic.Key) && within(nil, dynamic.Value)
}
