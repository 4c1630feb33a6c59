package closures

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/ir"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"github.com/open-policy-agent/opa/v1/test/cases"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// planned catches the plan of any query; only a plugin of package rego gets it.
type planned struct{ plan *ir.Policy }

func (*planned) IsTarget(target string) bool { return target == "closures" }

func (p *planned) PrepareForEval(_ context.Context, plan *ir.Policy, _ ...rego.PrepareOption) (rego.TargetPluginEval, error) {
	p.plan = plan
	return p, nil
}

func (*planned) Eval(context.Context, *rego.EvalContext, ast.Value) (ast.Value, error) {
	return nil, errors.New("only the plan is wanted")
}

// TestResults_AgreesWithOPACompliance runs OPA's own cases. Those that expect
// an error, and those that a plan has no closure for or that err, are OPA's to
// answer; of the others none may differ.
func TestResults_AgreesWithOPACompliance(t *testing.T) {
	plugin := &planned{}
	rego.RegisterPlugin("closures", plugin)
	defer rego.ResetTargetPlugins()
	left := map[string]int{}
	passed, comparable := 0, 0
	for _, c := range cases.MustLoad(complianceCases(t)).Cases {
		if c.WantErrorCode != nil || c.WantError != nil || c.WantResult == nil {
			continue
		}
		comparable++
		got, err := answer(c, plugin)
		if err != nil {
			left[reasonOf(err)]++
			continue
		}
		if want := wanted(c); !slices.EqualFunc(got, want, func(a, b ast.Value) bool { return ast.Compare(a, b) == 0 }) {
			t.Errorf("%s: got %v, OPA wants %v", c.Note, got, want)
			continue
		}
		passed++
	}
	t.Logf("of %d comparable cases %d pass, %d are left to OPA: %v", comparable, passed, comparable-passed, left)
	if passed < 2050 {
		t.Errorf("only %d cases pass: more is left to OPA than before", passed)
	}
}

func reasonOf(err error) string {
	text, _, _ := strings.Cut(err.Error(), ":")
	return text
}

// complianceCases is where the module cache holds OPA's cases: beside the
// package that loads them.
func complianceCases(t *testing.T) string {
	t.Helper()
	pc := runtime.FuncForPC(reflect.ValueOf(cases.MustLoad).Pointer())
	file, _ := pc.FileLine(pc.Entry())
	return filepath.Join(filepath.Dir(file), "testdata", "v1")
}

func answer(c cases.TestCase, plugin *planned) ([]ast.Value, error) {
	data := map[string]any{}
	if c.Data != nil {
		data = *c.Data
	}
	options := []func(*rego.Rego){rego.Query(c.Query), rego.Store(inmem.NewFromObject(data)), rego.Target("closures")}
	for i, module := range c.Modules {
		options = append(options, rego.Module(fmt.Sprintf("%d.rego", i), module))
	}
	if _, err := rego.New(options...).PrepareForEval(context.Background()); err != nil {
		return nil, fmt.Errorf("no plan: %w", err)
	}
	program, err := FromPlan(plugin.plan, ast.CapabilitiesForThisVersion())
	if err != nil {
		return nil, err
	}
	var input ast.Value
	switch {
	case c.InputTerm != nil:
		input = ast.MustParseTerm(*c.InputTerm).Value
	case c.Input != nil:
		input = ast.MustInterfaceToValue(*c.Input)
	}
	results, err := program.Results(0, input, ast.MustInterfaceToValue(data), 1_000_000, topdown.NewCancel())
	if err != nil {
		return nil, err
	}
	var out []ast.Value
	for _, result := range results {
		bound, err := bindings(result, c.SortBindings)
		if err != nil {
			return nil, err
		}
		out = append(out, bound)
	}
	return distinct(out), nil
}

func distinct(values []ast.Value) []ast.Value {
	slices.SortFunc(values, func(a, b ast.Value) int { return ast.Compare(a, b) })
	return slices.CompactFunc(values, func(a, b ast.Value) bool { return ast.Compare(a, b) == 0 })
}

// bindings is a result less the variables that OPA made up.
func bindings(result ast.Value, sorted bool) (ast.Value, error) {
	plain, err := ast.JSON(result)
	if err != nil {
		return nil, err
	}
	object := plain.(map[string]any)
	for name, value := range object {
		if strings.ContainsAny(name[:1], "^$_") {
			delete(object, name)
		}
		if list, ok := value.([]any); ok && sorted {
			slices.SortFunc(list, func(a, b any) int {
				return ast.Compare(ast.MustInterfaceToValue(a), ast.MustInterfaceToValue(b))
			})
		}
	}
	return ast.MustInterfaceToValue(object), nil
}

func wanted(c cases.TestCase) []ast.Value {
	var out []ast.Value
	for _, result := range *c.WantResult {
		out = append(out, ast.MustInterfaceToValue(result))
	}
	return distinct(out)
}
