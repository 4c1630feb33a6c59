package policies

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
)

// partials are a policy's deny and score, ready to be evaluated as far as a
// workload alone allows.
type partials struct {
	policy *policy
	module *ast.Module // the policy as it was parsed
	rules  []string
	ready  []rego.PreparedPartialQuery // by rule
	limit  time.Duration               // of one evaluation
}

// preparePartials sets up partial evaluation. What is not known then: the node,
// the time, and all data but the policy's own params. Inlining must stay
// shallow: OPA's default loses what is undefined under a negation.
func (p *policy) preparePartials(module *ast.Module, limit time.Duration) (*partials, error) {
	unknowns := []*ast.Term{ast.MustParseTerm("input.node"), ast.MustParseTerm("input.now"), ast.MustParseTerm("data.cluster")}
	for _, source := range p.reads.sources {
		unknowns = append(unknowns, ast.NewTerm(ast.DefaultRootRef.Append(ast.StringTerm(source))))
	}
	out := &partials{policy: p, module: module, rules: p.pair.rules, limit: limit}
	store := inmem.NewFromASTObject(ast.NewObject(field("params", p.params)))
	for _, rule := range out.rules {
		query := ast.NewBody(ast.Equality.Expr(ast.NewTerm(p.pkg.Append(ast.StringTerm(rule))), ast.VarTerm("x")))
		ready, err := rego.New(rego.ParsedQuery(query), rego.Compiler(p.compiler), rego.Store(store), rego.ParsedUnknowns(unknowns),
			rego.ShallowInlining(true), rego.StrictBuiltinErrors(true), rego.PartialNamespace(namespace(rule))).PrepareForPartial(context.Background())
		if err != nil {
			return nil, fmt.Errorf("prepare partial evaluation of %s: %w", rule, err)
		}
		out.ready = append(out.ready, ready)
	}
	return out, nil
}

// namespace is where partial evaluation puts the rules that are left.
func namespace(rule string) string { return "psg_partial_" + rule }

// residual is what is left of one rule of the contract for one workload: its
// clauses, each an element and a condition, and the rules they refer to.
type residual struct {
	policy   *policy
	original *ast.Module
	support  []*ast.Module
	clauses  []clause
}

type clause struct {
	element *ast.Term
	body    ast.Body
}

// of evaluates one rule as far as a workload allows. An error means that the
// policy must be evaluated pair by pair.
func (q *partials) of(ctx context.Context, rule int, workload *ast.Term) (*residual, error) {
	ctx, cancel := context.WithTimeout(ctx, q.limit)
	defer cancel()
	input := ast.NewObject(field("workload", workload))
	left, err := q.ready[rule].Partial(ctx, rego.EvalParsedInput(input))
	if err != nil {
		return nil, fmt.Errorf("partial evaluation of %s: %w", q.rules[rule], err)
	}
	out := &residual{policy: q.policy, original: q.module, support: left.Support}
	if len(left.Queries) != 1 || len(left.Queries[0]) != 1 {
		return nil, fmt.Errorf("partial evaluation of %s gave %d queries", q.rules[rule], len(left.Queries))
	}
	expr := left.Queries[0][0]
	if operator(expr) != "eq" {
		return nil, fmt.Errorf("partial evaluation of %s gave %v", q.rules[rule], expr)
	}
	given := expr.Operand(0)
	if _, isVar := given.Value.(ast.Var); isVar {
		given = expr.Operand(1)
	}
	switch v := given.Value.(type) {
	case ast.Set:
		for _, element := range v.Slice() {
			out.clauses = append(out.clauses, clause{element, nil})
		}
	case ast.Ref:
		rules := out.rules(v)
		if len(rules) == 0 {
			return nil, fmt.Errorf("partial evaluation of %s left it as it was", q.rules[rule])
		}
		for _, left := range rules {
			if left.Head.RuleKind() != ast.MultiValue || left.Else != nil || left.Default {
				return nil, fmt.Errorf("partial evaluation of %s gave %v", q.rules[rule], left)
			}
			out.clauses = append(out.clauses, clause{left.Head.Key, left.Body})
		}
	default:
		return nil, fmt.Errorf("partial evaluation of %s gave %v", q.rules[rule], given)
	}
	return out, nil
}

// rules are the support rules of exactly one reference.
func (r *residual) rules(ref ast.Ref) []*ast.Rule {
	var found []*ast.Rule
	for _, module := range r.support {
		for _, rule := range module.Rules {
			if module.Package.Path.Extend(rule.Head.Ref()).Equal(ref) {
				found = append(found, rule)
			}
		}
	}
	return found
}

// inlined is what a reference to a support rule can be replaced by: the value
// of its one clause, where that is defined just when the clause holds. The
// second result is false when there is nothing such.
func (r *residual) inlined(ref ast.Ref) (*ast.Term, bool) {
	for n := 3; n <= len(ref); n++ {
		rules := r.rules(ref[:n])
		if len(rules) != 1 {
			continue
		}
		rule := rules[0]
		if rule.Else != nil || rule.Default || rule.Head.RuleKind() != ast.SingleValue || len(rule.Head.Args) > 0 || iterates(rule) {
			return nil, false
		}
		body := r.flatten(rule.Body)
		value := body.replace(rule.Head.Value)
		if len(body.group) > 0 || slices.ContainsFunc(body.conditions, func(c condition) bool { return !c.impliedBy(value) }) {
			return nil, false
		}
		return extend(value, ref[n:])
	}
	return nil, false
}

// extend is a term with more keys to look up in it.
func extend(term *ast.Term, keys ast.Ref) (*ast.Term, bool) {
	if len(keys) == 0 {
		return term, true
	}
	ref, ok := term.Value.(ast.Ref)
	if !ok {
		return nil, false
	}
	return ast.NewTerm(slices.Concat(ref, keys)), true
}
