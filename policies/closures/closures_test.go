package closures

import (
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
)

// Sets under keys are put back each time that an element is added.
func TestEval_AddsToSetsUnderKeys(t *testing.T) {
	module := ast.MustParseModule(`package p

zones[w.zone] contains w.name if some w in input.workloads

nested[w.zone].names contains w.name if some w in input.workloads

out := [zones, nested]
`)
	program, err := Compile([]*ast.Module{module}, ast.CapabilitiesForThisVersion(), ast.MustParseRef("data.p.out"))
	if err != nil {
		t.Fatal(err)
	}
	input := ast.MustParseTerm(`{"workloads": [{"zone": "a", "name": "x"}, {"zone": "a", "name": "y"}, {"zone": "b", "name": "x"}]}`)
	got, err := program.Eval(0, input.Value, ast.NewObject(), 1000, nil)
	want := ast.MustParseTerm(`[{"a": {"x", "y"}, "b": {"x"}}, {"a": {"names": {"x", "y"}}, "b": {"names": {"x"}}}]`)
	if err != nil || ast.Compare(got, want.Value) != 0 {
		t.Errorf("got %v, %v", got, err)
	}
}
