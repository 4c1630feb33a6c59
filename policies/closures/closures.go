// Package closures evaluates Rego faster than OPA's own evaluator: it takes
// the plan that OPA compiles a policy to (its intermediate representation) and
// turns each statement into one Go closure, once.
//
// It says what OPA says or nothing: on any error (of a builtin, of two values
// for one rule, of a budget that ran out) Eval returns the error, and the
// caller asks OPA. OPA may skip what the plan evaluates, so an error here need
// not be one there. What it does not know it refuses at Compile.
//
// Package policies is its only caller.
package closures

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/bundle"
	"github.com/open-policy-agent/opa/v1/compile"
	"github.com/open-policy-agent/opa/v1/ir"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// Program is compiled rules. It does not change and is safe for concurrent use.
type Program struct {
	functions map[string]*function
	paths     map[string]*function // functions that are found by the path of their rule
	plans     []*function          // by entry point
	machines  sync.Pool
}

// function is one rule, or one entry point.
type function struct {
	id     int
	params []int
	result int
	locals int
	blocks []op
}

// Compile plans modules with OPA and compiles the plan. Each entry point is the
// path of a rule, such as data.p.deny. Modules are not changed.
func Compile(modules []*ast.Module, capabilities *ast.Capabilities, entries ...ast.Ref) (*Program, error) {
	plan, err := planOf(modules, capabilities, entries)
	if err != nil {
		return nil, err
	}
	return FromPlan(plan, capabilities)
}

func planOf(modules []*ast.Module, capabilities *ast.Capabilities, entries []ast.Ref) (*ir.Policy, error) {
	input := &bundle.Bundle{}
	input.SetRegoVersion(ast.RegoV1)
	input.Manifest.Init()
	for i, module := range modules {
		name := fmt.Sprintf("%d.rego", i)
		input.Modules = append(input.Modules, bundle.ModuleFile{URL: name, Path: name, Parsed: module.Copy()})
	}
	paths := make([]string, len(entries))
	for i, entry := range entries {
		path, err := entry.Ptr()
		if err != nil {
			return nil, fmt.Errorf("entry point %s: %w", entry, err)
		}
		paths[i] = path
	}
	compiler := compile.New().WithTarget(compile.TargetPlan).WithBundle(input).WithRegoVersion(ast.RegoV1).
		WithCapabilities(capabilities).WithEntrypoints(paths...).WithPruneUnused(true)
	if err := compiler.Build(context.Background()); err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	var plan ir.Policy
	if err := json.Unmarshal(compiler.Bundle().PlanModules[0].Raw, &plan); err != nil {
		return nil, fmt.Errorf("read plan: %w", err)
	}
	return &plan, nil
}

// errUnknown says that a plan holds what this package has no closure for.
var errUnknown = errors.New("not compiled to closures")

// FromPlan compiles a plan.
func FromPlan(plan *ir.Policy, capabilities *ast.Capabilities) (*Program, error) {
	p := &Program{functions: map[string]*function{}, paths: map[string]*function{}}
	c := compiler{program: p, externs: map[string]*ast.Builtin{}}
	for _, constant := range plan.Static.Strings {
		c.strings = append(c.strings, ast.StringTerm(constant.Value))
	}
	for _, builtin := range capabilities.Builtins {
		c.externs[builtin.Name] = builtin
	}
	for i, f := range plan.Funcs.Funcs {
		compiled := &function{id: i, result: int(f.Return), locals: locals(f)}
		for _, parameter := range f.Params {
			compiled.params = append(compiled.params, int(parameter))
		}
		p.functions[f.Name] = compiled
		if len(f.Path) > 0 {
			p.paths[strings.Join(f.Path, "\x00")] = compiled
		}
	}
	for _, f := range plan.Funcs.Funcs {
		p.functions[f.Name].blocks = c.blocks(f.Blocks)
	}
	for _, entry := range plan.Plans.Plans {
		p.plans = append(p.plans, &function{locals: locals(entry), blocks: c.blocks(entry.Blocks)})
	}
	if c.err != nil {
		return nil, c.err
	}
	rules := len(plan.Funcs.Funcs)
	p.machines.New = func() any { return &machine{remembered: make([]remembered, rules), capabilities: capabilities} }
	return p, nil
}

// ErrBudget says that an evaluation took more steps than it may, or was
// cancelled.
var ErrBudget = errors.New("budget of steps exceeded")

// Eval evaluates one entry point. Its value is nil when it is undefined. The
// budget is a number of calls and of elements iterated over; cancel, which may
// be nil, is polled, also by builtins that can take long.
func (p *Program) Eval(entry int, input, data ast.Value, budget int, cancel topdown.Cancel) (ast.Value, error) {
	results, err := p.Results(entry, input, data, budget, cancel)
	if err != nil || len(results) == 0 {
		return nil, err
	}
	object, ok := results[0].(ast.Object)
	if !ok {
		return nil, fmt.Errorf("result %v: %w", results[0], errUnknown)
	}
	if value := object.Get(resultKey); value != nil {
		return value.Value, nil
	}
	return nil, nil
}

// Results evaluates one entry point that may have any number of results, each
// an object of the query's variables.
func (p *Program) Results(entry int, input, data ast.Value, budget int, cancel topdown.Cancel) (results []ast.Value, err error) {
	m := p.machines.Get().(*machine)
	defer func() {
		// A builtin that panics must not take the controller down.
		if r := recover(); r != nil {
			results, err = nil, fmt.Errorf("evaluation panicked: %v", r)
			return // the machine's state is not known: leave it out of the pool
		}
		p.machines.Put(m)
	}()
	return m.run(p.plans[entry], input, data, budget, cancel)
}
