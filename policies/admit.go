package policies

import (
	"fmt"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/types"
)

// obstacle is why a rule cannot be decided by columns.
type obstacle struct {
	rule *ast.Rule
	why  string
}

// obstacles are what keeps a policy's deny and score from the columns. Partial
// evaluation drops conditions whose outcome is known, and with them errors that
// OPA would have met before: so only what can be proved never to err, and never
// to have two values, is admitted.
func (p *policy) obstacles() []obstacle {
	var found []obstacle
	reached := p.reached(p.pair.rules)
	typer := p.newTyper()
	for _, rule := range reached {
		for clause := rule; clause != nil; clause = clause.Else {
			if why := p.mayErr(typer, clause); why != "" {
				found = append(found, obstacle{rule, why})
			}
		}
	}
	for _, rule := range reached {
		if name := ruleName(rule); slices.Contains(p.pair.rules, name) && !properly(name, typer.inside(rule.Body).of(rule.Head.Key)) {
			found = append(found, obstacle{rule, fmt.Sprintf("line %d: its element is not certain to be right: %q", rule.Location.Row, elements(name))})
		}
	}
	return append(found, conflicts(reached)...)
}

// properly reports whether all elements of a type are what a rule of the
// contract may give.
func properly(rule string, t types.Type) bool {
	if rule == "deny" {
		return within(t, types.S)
	}
	pair, ok := t.(*types.Array)
	return ok && pair.Len() == 2 && pair.Dynamic() == nil && within(pair.Select(0), types.S) && within(pair.Select(1), types.N)
}

// reached are the rules that some rules of the contract depend on, themselves
// included, in the order of the file.
func (p *policy) reached(names []string) []*ast.Rule {
	used := map[*ast.Rule]bool{}
	var visit func(rule *ast.Rule)
	visit = func(rule *ast.Rule) {
		if used[rule] {
			return
		}
		used[rule] = true
		for dependency := range p.compiler.Graph.Dependencies(rule) {
			visit(dependency.(*ast.Rule))
		}
	}
	rules := p.module().Rules
	for _, rule := range rules {
		if slices.Contains(names, ruleName(rule)) {
			visit(rule)
		}
	}
	return slices.DeleteFunc(slices.Clone(rules), func(rule *ast.Rule) bool { return !used[rule] })
}

// conflicts finds rules that may come to two values.
func conflicts(rules []*ast.Rule) []obstacle {
	byName := map[string][]*ast.Rule{}
	for _, rule := range rules {
		if !rule.Default && rule.Head.RuleKind() == ast.SingleValue {
			name := rule.Head.Ref().String()
			byName[name] = append(byName[name], rule)
		}
	}
	var found []obstacle
	for _, rule := range rules {
		same := byName[rule.Head.Ref().String()]
		switch {
		case !slices.Contains(same, rule):
		case !rule.Head.Ref().IsGround():
			found = append(found, obstacle{rule, "it may give one key two values"})
		case oneConstant(same):
		case len(same) > 1:
			found = append(found, obstacle{rule, fmt.Sprintf("%d definitions of %s may give it two values", len(same), ruleName(rule))})
		case iterates(rule):
			found = append(found, obstacle{rule, "it may have as many values as what it iterates over"})
		}
	}
	return found
}

// oneConstant reports whether all that some rules can give is the same constant.
func oneConstant(rules []*ast.Rule) bool {
	first := rules[0].Head.Value
	for _, rule := range rules {
		for clause := rule; clause != nil; clause = clause.Else {
			if !ast.IsConstant(clause.Head.Value.Value) || !clause.Head.Value.Equal(first) {
				return false
			}
		}
	}
	return true
}

// iterates reports whether a body may hold in several ways: whether a reference
// in it has a variable that nothing before gives a value.
func iterates(rule *ast.Rule) bool {
	for clause := rule; clause != nil; clause = clause.Else {
		bound := ast.NewVarSet()
		for _, arg := range clause.Head.Args {
			bound.Update(arg.Vars())
		}
		for _, expr := range clause.Body {
			if builtin := ast.BuiltinMap[operator(expr)]; builtin != nil && builtin.Relation || freeInRefs(expr, bound) {
				return true
			}
			bound.Update(expr.Vars(ast.VarVisitorParams{SkipClosures: true}))
		}
	}
	return false
}

func operator(expr *ast.Expr) string {
	if !expr.IsCall() {
		return ""
	}
	return expr.Operator().String()
}

// freeInRefs reports whether references of an expression, other than inside
// closures, hold variables that are not bound.
func freeInRefs(expr *ast.Expr, bound ast.VarSet) bool {
	free := false
	visitor := ast.NewGenericVisitor(func(x any) bool {
		switch x := x.(type) {
		case *ast.ArrayComprehension, *ast.SetComprehension, *ast.ObjectComprehension, *ast.Every:
			return true
		case ast.Ref:
			for _, term := range x[1:] {
				for v := range term.Vars() {
					free = free || !bound.Contains(v)
				}
			}
		}
		return false
	})
	visitor.Walk(expr)
	return free
}

// mayErr says what in one clause may err; empty means nothing.
func (p *policy) mayErr(types *typer, clause *ast.Rule) string {
	prover := &prover{}
	prover.body(types.inside(clause.Body), clause.Body)
	return prover.doubt
}

// prover looks for a call that may err.
type prover struct{ doubt string }

func (p *prover) body(types *typer, body ast.Body) {
	for _, expr := range body {
		p.expr(types, expr)
	}
}

func (p *prover) expr(types *typer, expr *ast.Expr) {
	if len(expr.With) > 0 {
		p.fail(expr.Location, "with replaces what the rest reads")
	}
	if expr.IsCall() {
		p.call(expr.Location, operator(expr), expr.Operands(), types)
	}
	visitor := ast.NewGenericVisitor(func(x any) bool {
		switch x := x.(type) {
		case *ast.ArrayComprehension:
			p.body(types.inside(x.Body), x.Body)
		case *ast.SetComprehension:
			p.body(types.inside(x.Body), x.Body)
		case *ast.ObjectComprehension:
			p.fail(expr.Location, "an object comprehension may give one key two values")
		case *ast.Every:
			inside := types.inside(nil)
			inside.element(x)
			p.body(inside.inside(x.Body), x.Body)
		case *ast.Not, *ast.LogicalAnd, *ast.LogicalOr, *ast.TemplateString:
			p.fail(expr.Location, "its form is not one that is looked into")
		case ast.Call:
			p.call(expr.Location, x[0].String(), x[1:], types)
			return false
		case ast.Ref:
			p.ref(expr, x, types)
			return false
		case ast.Object:
			if slices.ContainsFunc(x.Keys(), func(key *ast.Term) bool { return !ast.IsConstant(key.Value) }) {
				p.fail(expr.Location, "keys of an object that are not constant may be the same")
			}
			return false
		default:
			return false
		}
		return true
	})
	visitor.Walk(expr) // of its terms it would not look into a list
}

func (p *prover) call(at *ast.Location, name string, args []*ast.Term, types *typer) {
	if strings.HasPrefix(name, "data.") {
		return // a function of the policy: its own clauses are proved
	}
	if why := mayBuiltinErr(name, args, types); why != "" {
		p.fail(at, why)
	}
}

// ref looks for lists whose elements partial evaluation tries one by one, since
// it does not know the key: under not it loses which key goes with which element,
// and in params it passes over the texts of numbers, which are keys there too.
func (p *prover) ref(expr *ast.Expr, ref ast.Ref, types *typer) {
	inParams := ref.HasPrefix(ast.MustParseRef("data.params"))
	if !inParams && (!expr.Negated || ref[0].Equal(ast.DefaultRootDocument) || ref.HasPrefix(ast.MustParseRef("input.node"))) {
		return
	}
	for i, key := range ref[1:] {
		switch {
		case ast.IsConstant(key.Value) || !maybeList(types.ref(ref[:i+1])):
		case expr.Negated && !inParams:
			p.fail(expr.Location, fmt.Sprintf("not of a list at a key that may depend on the node: %v", ref))
		case inParams && !certainNumber(types.of(key)):
			p.fail(expr.Location, fmt.Sprintf("a list is read at a key that may be a text: %v", ref))
		}
	}
}

func (p *prover) fail(at *ast.Location, why string) {
	if p.doubt == "" {
		p.doubt = fmt.Sprintf("line %d: %s", at.Row, why)
	}
}

func certainNumber(t types.Type) bool { return within(t, types.N) }

// maybeList reports whether something of a type can be a list.
func maybeList(t types.Type) bool {
	switch t := t.(type) {
	case nil, *types.Array:
		return true
	case types.Any:
		return len(t) == 0 || slices.ContainsFunc(t, maybeList)
	}
	return false
}
