package policies

import (
	"fmt"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/types"

	"github.com/psgrid/psg/hclspec"
)

// contract is what a policy may define for PSG; every other rule is its own.
func contract() []string { return []string{"deny", "score", "reject", "protect"} }

// elements says how to write each rule of the contract.
func elements(rule string) string {
	if rule == "score" {
		return "score contains [reason, points] if …"
	}
	return rule + " contains reason if …"
}

// checkModule finds what can be said of a policy before it is compiled.
func checkModule(module *ast.Module, limits compileLimits) hclspec.BundleErrors {
	var errs hclspec.BundleErrors
	fail := func(at *ast.Location, format string, args ...any) {
		errs = append(errs, hclspec.BundleError{Pos: positionOf(limits.dir, at), Problem: fmt.Sprintf(format, args...)})
	}
	if root, ok := module.Package.Path[1].Value.(ast.String); ok && slices.Contains(limits.sources, string(root)) {
		fail(module.Package.Location, "package %s would hide data.%s: choose another name", packageName(module.Package), string(root))
	}
	for _, rule := range module.Rules {
		name := ruleName(rule)
		if !slices.Contains(contract(), name) {
			continue
		}
		if rule.Default || rule.Head.RuleKind() != ast.MultiValue || len(rule.Head.Ref()) != 1 {
			fail(rule.Location, "%s must be a set: write %q", name, elements(name))
		}
	}
	forbidden := map[string]bool{}
	for _, builtin := range ast.Builtins {
		forbidden[builtin.Name] = builtin.IsNondeterministic()
	}
	ast.WalkTerms(module, func(term *ast.Term) bool {
		if ref, ok := term.Value.(ast.Ref); ok && forbidden[ref.String()] {
			fail(term.Location, "%s is refused: its answer may differ for the same input, and a ruling must not", ref)
		}
		if number, ok := term.Value.(ast.Number); ok {
			if err := hclspec.CheckDigits(string(number)); err != nil {
				fail(term.Location, "%v", err)
			}
		}
		return false
	})
	if errs == nil && contractRules(module) == nil {
		fail(module.Package.Location, "package %s decides nothing: it defines none of %s%s",
			packageName(module.Package), strings.Join(contract(), ", "), nearMisses(module))
	}
	return errs
}

func packageName(p *ast.Package) string { return strings.TrimPrefix(p.Path.String(), "data.") }

// ruleName is the first part of a rule's name: "deny" of deny, deny.a and deny[x].
func ruleName(rule *ast.Rule) string {
	if name, ok := rule.Head.Ref()[0].Value.(ast.Var); ok {
		return string(name)
	}
	return ""
}

// contractRules are the rules of the contract that a module defines, in the
// contract's order; nil when none.
func contractRules(module *ast.Module) []string {
	var found []string
	for _, name := range contract() {
		if slices.ContainsFunc(module.Rules, func(rule *ast.Rule) bool { return ruleName(rule) == name }) {
			found = append(found, name)
		}
	}
	return found
}

func nearMisses(module *ast.Module) string {
	for _, rule := range module.Rules {
		if hint := hclspec.DidYouMean(ruleName(rule), contract()); hint != "" {
			return fmt.Sprintf(" (it defines %s%s)", ruleName(rule), hint)
		}
	}
	return ""
}

// unusedRules warns of rules that nothing of the contract depends on: most are
// a contract rule misspelt.
func (p *policy) unusedRules() []string {
	used := p.reached(contract())
	var warnings []string
	for _, rule := range p.module().Rules {
		name := ruleName(rule)
		if !slices.Contains(used, rule) && !strings.HasPrefix(name, "test_") && !strings.HasPrefix(name, "todo_test_") {
			at := positionOf(p.dir, rule.Location)
			warnings = append(warnings, fmt.Sprintf("%s: rule %s is never used%s", at, name, hclspec.DidYouMean(name, contract())))
		}
	}
	return warnings
}

// module is the policy's one module, compiled.
func (p *policy) module() *ast.Module {
	for _, module := range p.compiler.Modules {
		return module
	}
	panic("policies: a policy without a module")
}

// checkTypes refuses rules of the contract whose elements the type checker
// knows to be wrong. What it cannot know is checked at each evaluation.
func (p *policy) checkTypes() hclspec.BundleErrors {
	var errs hclspec.BundleErrors
	for _, name := range p.rules {
		set, ok := p.compiler.TypeEnv.GetByRef(p.pkg.Append(ast.StringTerm(name))).(*types.Set)
		if !ok || wellTyped(name, set.Of()) {
			continue
		}
		for _, rule := range p.module().Rules {
			if ruleName(rule) == name {
				errs = append(errs, hclspec.BundleError{Pos: positionOf(p.dir, rule.Location),
					Problem: fmt.Sprintf("%s: elements are %s: write %q, with a string as reason%s", name, types.Sprint(set.Of()), elements(name), numeric(name))})
				break
			}
		}
	}
	return errs
}

func numeric(rule string) string {
	if rule == "score" {
		return " and a number as points"
	}
	return ""
}

// wellTyped reports whether something that t describes could be right. Only
// what is certainly wrong is refused: the type of a difference, say, is a
// number or a set.
func wellTyped(rule string, t types.Type) bool {
	if rule != "score" {
		return maybe(t, types.S)
	}
	if union, ok := t.(types.Any); ok {
		return len(union) == 0 || slices.ContainsFunc(union, func(member types.Type) bool { return wellTyped(rule, member) })
	}
	array, ok := t.(*types.Array)
	if !ok || array.Dynamic() != nil {
		return ok
	}
	return array.Len() == 2 && maybe(array.Select(0), types.S) && maybe(array.Select(1), types.N)
}

// maybe reports whether something of type t can be of type want.
func maybe(t, want types.Type) bool {
	if union, ok := t.(types.Any); ok {
		return len(union) == 0 || slices.ContainsFunc(union, func(member types.Type) bool { return maybe(member, want) })
	}
	return t == nil || types.Compare(t, want) == 0
}
