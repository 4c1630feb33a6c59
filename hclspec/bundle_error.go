package hclspec

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Position is a place in a file; lines and columns count from 1.
type Position struct {
	File   string
	Line   int
	Column int
}

// String is the position as compilers write it: file:line:column.
func (p Position) String() string { return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column) }

func position(r hcl.Range) Position { return Position{r.Filename, r.Start.Line, r.Start.Column} }

// BundleError is one thing wrong with a bundle file.
type BundleError struct {
	Pos     Position
	Problem string
}

// Error is the position and the problem.
func (e BundleError) Error() string { return e.Pos.String() + ": " + e.Problem }

// BundleErrors is everything wrong with a bundle.
type BundleErrors []BundleError

// Error has one problem a line.
func (e BundleErrors) Error() string {
	lines := make([]string, len(e))
	for i, one := range e {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// sort puts problems of one file in the order of their places: HCL decodes the
// arguments of a block in any order.
func (e BundleErrors) sort() {
	slices.SortFunc(e, func(a, b BundleError) int {
		return cmp.Or(cmp.Compare(a.Pos.Line, b.Pos.Line), cmp.Compare(a.Pos.Column, b.Pos.Column), cmp.Compare(a.Problem, b.Problem))
	})
}

// add notes a problem at a range.
func (e *BundleErrors) add(at hcl.Range, format string, args ...any) {
	*e = append(*e, BundleError{position(at), fmt.Sprintf(format, args...)})
}

// diagnose takes over what HCL found wrong.
func (e *BundleErrors) diagnose(filename string, diags hcl.Diagnostics) {
	// An expression that is wrong itself has no value: no second error for that.
	first := slices.DeleteFunc(slices.Clone(diags), func(diag *hcl.Diagnostic) bool {
		return strings.HasSuffix(diag.Detail, "value must be known")
	})
	if first.HasErrors() {
		diags = first
	}
	for _, diag := range diags {
		if diag.Severity != hcl.DiagError {
			continue
		}
		at := hcl.Range{Filename: filename, Start: hcl.InitialPos}
		if diag.Subject != nil {
			at = *diag.Subject
		}
		e.add(at, "%s", problemOf(diag))
	}
}

// problemOf is a diagnostic in one line. HCL itself suggests the nearest
// argument and block for a misspelt one, but no variable, and of functions that
// are equally near any.
func problemOf(diag *hcl.Diagnostic) string {
	if call, ok := hcl.DiagnosticExtra[hclsyntax.FunctionCallUnknownDiagExtra](diag); ok && diag.EvalContext != nil {
		return fmt.Sprintf("there is no function %q%s", call.CalledFunctionName(), DidYouMean(call.CalledFunctionName(), sortedNames(diag.EvalContext.Functions)))
	}
	problem := strings.TrimSuffix(diag.Summary, ".")
	if diag.Detail != "" {
		problem += ": " + strings.TrimSuffix(strings.Join(strings.Fields(diag.Detail), " "), ".")
	}
	return problem + variableHint(diag)
}

// variableHint is the suggestion HCL does not make: for an attribute of var.
func variableHint(diag *hcl.Diagnostic) string {
	if diag.Expression == nil || diag.EvalContext == nil {
		return ""
	}
	declared, ok := diag.EvalContext.Variables["var"]
	if !ok {
		return ""
	}
	for _, traversal := range diag.Expression.Variables() {
		if len(traversal) < 2 || traversal.RootName() != "var" {
			continue
		}
		attr, ok := traversal[1].(hcl.TraverseAttr)
		if ok && !declared.Type().HasAttribute(attr.Name) {
			return DidYouMean(attr.Name, sortedNames(declared.Type().AttributeTypes()))
		}
	}
	return ""
}

// DidYouMean suggests the known name that is nearest to a misspelt one, as
// `; did you mean "x"?`, or nothing when none is near.
func DidYouMean(name string, known []string) string {
	best, least := "", 3
	for _, candidate := range known {
		if d := levenshtein.Distance(name, candidate, nil); d < least && d < len(candidate) {
			best, least = candidate, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}
