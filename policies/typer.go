package policies

import (
	"maps"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/types"
)

// typer says of which type the terms of a policy are. It knows more than OPA's
// type checker does: the types under additionalProperties, and params by their
// values. A type of nil means that nothing is known.
type typer struct {
	policy *policy
	roots  map[string]types.Type // input, cluster, params
	rules  map[string]types.Type // what rules give, by their references
	vars   map[ast.Var]types.Type
}

func (p *policy) newTyper() *typer {
	params, err := ast.JSON(p.params.Value)
	if err != nil {
		params = map[string]any{}
	}
	return &typer{
		policy: p, rules: map[string]types.Type{}, vars: map[ast.Var]types.Type{},
		roots: map[string]types.Type{
			"input": schemaType(decodeSchema(InputSchema())), "cluster": schemaType(decodeSchema(ClusterSchema())), "params": types.TypeOf(params),
		},
	}
}

// schemaType is the type that a published schema describes.
func schemaType(schema map[string]any) types.Type {
	switch schema["type"] {
	case "string":
		return types.S
	case "number", "integer":
		return types.N
	case "boolean":
		return types.B
	case "array":
		items, _ := schema["items"].(map[string]any)
		return types.NewArray(nil, orAny(schemaType(items)))
	case "object":
		var static []*types.StaticProperty
		properties, _ := schema["properties"].(map[string]any)
		for name, property := range properties {
			static = append(static, types.NewStaticProperty(name, orAny(schemaType(property.(map[string]any)))))
		}
		var dynamic *types.DynamicProperty
		if values, ok := schema["additionalProperties"].(map[string]any); ok {
			dynamic = types.NewDynamicProperty(types.S, orAny(schemaType(values)))
		}
		return types.NewObject(static, dynamic)
	}
	return nil
}

func orAny(t types.Type) types.Type {
	if t == nil {
		return types.A
	}
	return t
}

// inside is a typer that also knows the variables of a body.
func (t *typer) inside(body ast.Body) *typer {
	in := *t
	in.vars = maps.Clone(t.vars)
	for _, expr := range body {
		if !expr.Negated {
			in.learn(expr)
		}
	}
	return &in
}

// learn takes from an expression the types of the variables that it sets.
func (t *typer) learn(expr *ast.Expr) {
	visitor := ast.NewGenericVisitor(func(x any) bool {
		switch x := x.(type) {
		case *ast.ArrayComprehension, *ast.SetComprehension, *ast.ObjectComprehension, *ast.Every:
			return true
		case ast.Ref:
			t.ref(x)
		}
		return false
	})
	visitor.Walk(expr)
	if !expr.IsCall() {
		return
	}
	args := expr.Operands()
	name := operator(expr)
	switch arity, result := t.signature(name, args); {
	case name == "eq" || name == "assign":
		t.bind(args[0], args[1])
		t.bind(args[1], args[0])
	case len(args) == arity+1:
		if v, ok := args[arity].Value.(ast.Var); ok {
			t.set(v, result)
		}
	}
}

func (t *typer) bind(to, from *ast.Term) {
	if v, ok := to.Value.(ast.Var); ok {
		t.set(v, t.of(from))
	}
}

// set keeps the first type: later mentions of a variable only compare it.
func (t *typer) set(v ast.Var, is types.Type) {
	if t.vars[v] == nil && is != nil {
		t.vars[v] = is
	}
}

// signature is how many arguments a function takes, and what it gives for these.
func (t *typer) signature(name string, args []*ast.Term) (int, types.Type) {
	if builtin, ok := ast.BuiltinMap[name]; ok {
		arity := len(builtin.Decl.FuncArgs().Args)
		switch {
		case arithmetic(name):
			return arity, types.N
		case name == "object.get" && len(args) >= arity:
			return arity, types.Or(orAny(types.Values(t.of(args[0]))), orAny(t.of(args[2])))
		}
		return arity, builtin.Decl.Result()
	}
	ref, err := ast.ParseRef(name)
	if err != nil {
		return 0, nil
	}
	rules := t.policy.compiler.GetRulesExact(ref)
	if len(rules) == 0 {
		return 0, nil
	}
	return len(rules[0].Head.Args), t.rule(ref)
}

// of is the type of a term.
func (t *typer) of(term *ast.Term) types.Type {
	switch v := term.Value.(type) {
	case ast.Null:
		return types.Nl
	case ast.Boolean:
		return types.B
	case ast.Number:
		return types.N
	case ast.String:
		return types.S
	case ast.Var:
		return t.vars[v]
	case ast.Ref:
		return t.ref(v)
	case ast.Call:
		_, result := t.signature(v[0].String(), v[1:])
		return result
	case *ast.Array:
		elements := make([]types.Type, v.Len())
		for i := range elements {
			elements[i] = orAny(t.of(v.Elem(i)))
		}
		return types.NewArray(elements, nil)
	case *ast.ArrayComprehension:
		return types.NewArray(nil, orAny(t.inside(v.Body).of(v.Term)))
	case *ast.SetComprehension:
		return types.NewSet(orAny(t.inside(v.Body).of(v.Term)))
	}
	return nil
}

// ref is the type of a reference. It notes the types of the keys it iterates
// over.
func (t *typer) ref(ref ast.Ref) types.Type {
	is, rest := t.head(ref)
	for _, key := range rest {
		if v, ok := key.Value.(ast.Var); ok {
			t.set(v, types.Keys(is))
		}
		if name, ok := key.Value.(ast.String); ok {
			is = types.Select(is, string(name))
		} else {
			is = types.Values(is)
		}
		if union, ok := is.(types.Any); ok && len(union) == 0 {
			is = nil
		}
	}
	return is
}

// head is the type of what a reference begins with, and what follows there.
func (t *typer) head(ref ast.Ref) (types.Type, ast.Ref) {
	switch {
	case ref[0].Equal(ast.InputRootDocument):
		return t.roots["input"], ref[1:]
	case !ref[0].Equal(ast.DefaultRootDocument):
		return t.of(ref[0]), ref[1:]
	case len(ref) < 2:
		return nil, nil
	}
	for n := len(ref); n > len(t.policy.pkg); n-- {
		if rule := ref[:n]; rule.HasPrefix(t.policy.pkg) && len(t.policy.compiler.GetRulesExact(rule)) > 0 {
			return t.rule(rule), ref[n:]
		}
	}
	name, _ := ref[1].Value.(ast.String)
	return t.roots[string(name)], ref[2:]
}

// rule is the type of what the rules of one reference give.
func (t *typer) rule(ref ast.Ref) types.Type {
	name := ref.String()
	if known, ok := t.rules[name]; ok {
		return known
	}
	fresh := &typer{policy: t.policy, roots: t.roots, rules: t.rules, vars: map[ast.Var]types.Type{}}
	var is types.Type
	for _, rule := range t.policy.compiler.GetRulesExact(ref) {
		for clause := rule; clause != nil; clause = clause.Else {
			gives := clause.Head.Value
			if clause.Head.RuleKind() == ast.MultiValue {
				gives = clause.Head.Key
			}
			is = types.Or(is, orAny(fresh.inside(clause.Body).of(gives)))
		}
		if rule.Head.RuleKind() == ast.MultiValue {
			is = types.NewSet(is)
		}
	}
	t.rules[name] = is
	return is
}

// element types the variables of an every: what it goes through one by one.
func (t *typer) element(every *ast.Every) {
	domain := t.of(every.Domain)
	if every.Key != nil {
		t.set(every.Key.Value.(ast.Var), types.Keys(domain))
	}
	t.set(every.Value.Value.(ast.Var), types.Values(domain))
}
