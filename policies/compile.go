package policies

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/psgrid/psg/hclspec"
)

// policy is one compiled policy of a set.
type policy struct {
	spec     hclspec.Policy
	dir      string  // of the bundle, for positions
	pkg      ast.Ref // data.PACKAGE
	params   *ast.Term
	compiler *ast.Compiler
	rules    []string // of the contract, in its order, that the policy defines
	reads    reads
	alone    roots // what reject and protect read, of that
	paired   roots // what deny and score read
	warnings []string

	pair       *query // deny and score; nil when it defines neither
	fast       *compiled
	partial    *partials    // nil when the policy may not be columnar
	tier       atomic.Int32 // the highest Tier that it may be evaluated in
	why        []obstacle   // what keeps it from being columnar
	nodePaths  [][]string   // what deny and score read of a node
	projection [][]string   // and of a workload
	behind     string       // what keeps it from being compiled
	reject     *query       // nil when not defined, as is protect
	protect    *query
}

// source is who a reason comes from.
func (p *policy) source() string { return "policy " + p.spec.Name }

// query asks for some rules of a policy at once, so that what they share is
// evaluated once.
type query struct {
	rules    []string
	body     ast.Body
	compiler ast.QueryCompiler
}

// compileLimits are what may be used and referred to in one bundle.
type compileLimits struct {
	dir          string // of the bundle, for positions
	capabilities *ast.Capabilities
	schemas      *ast.SchemaSet
	sources      []string // data sources of the bundle, and what PSG gives itself
	tier         Tier     // that no policy goes above
	timeout      time.Duration
}

func limitsOf(dir string, bundle hclspec.Bundle) compileLimits {
	roots := hclspec.ReservedData()
	for _, source := range bundle.Sources {
		roots = append(roots, source.Name)
	}
	return compileLimits{dir, deterministic(), schemas(bundle.Aggregates), roots, Columnar, time.Second}
}

// deterministic is what this OPA can do, less the builtins that may answer
// differently for the same input, and less any network.
func deterministic() *ast.Capabilities {
	capabilities := ast.CapabilitiesForThisVersion()
	capabilities.Builtins = slices.DeleteFunc(slices.Clone(capabilities.Builtins), (*ast.Builtin).IsNondeterministic)
	capabilities.AllowNet = []string{}
	return capabilities
}

// compilePolicy compiles one policy alone. Its file goes by its path within the
// bundle: errors of evaluation name it, and must not tell where a controller
// keeps its bundles.
func compilePolicy(spec hclspec.Policy, src string, limits compileLimits) (*policy, hclspec.BundleErrors) {
	file := spec.Rego
	module, errs := parseModule(limits.dir, file, src)
	if errs == nil {
		errs = checkModule(module, limits)
	}
	if errs != nil {
		return nil, errs
	}
	parsed := module.Copy()
	p := &policy{spec: spec, dir: limits.dir, pkg: module.Package.Path, rules: contractRules(module)}
	p.compiler = newCompiler(limits)
	if p.compiler.Compile(map[string]*ast.Module{file: module}); p.compiler.Failed() {
		return nil, located(limits.dir, file, p.compiler.Errors)
	}
	params, err := ast.InterfaceToValue(spec.Params)
	if err != nil {
		return nil, hclspec.BundleErrors{{Pos: spec.Pos, Problem: fmt.Sprintf("policy %q: params: %v", spec.Name, err)}}
	}
	p.params = ast.NewTerm(params)
	if errs := p.checkTypes(); errs != nil {
		return nil, errs
	}
	if p.reads, errs = readsOf(p, limits); errs != nil {
		return nil, errs
	}
	p.alone, p.paired = p.readBy("reject", "protect"), p.readBy("deny", "score")
	p.warnings = append(p.warnings, p.unusedRules()...)
	if err := p.prepare(); err != nil {
		return nil, hclspec.BundleErrors{{Pos: spec.Pos, Problem: fmt.Sprintf("policy %q: %v", spec.Name, err)}}
	}
	if p.pair != nil {
		p.nodePaths = p.inputPaths("node")
	}
	if p.pair != nil && limits.tier > Oracle {
		p.quicken(parsed, limits)
	}
	return p, nil
}

func newCompiler(limits compileLimits) *ast.Compiler {
	return ast.NewCompiler().WithCapabilities(limits.capabilities).
		WithSchemas(limits.schemas).WithUseTypeCheckAnnotations(true)
}

func parseModule(dir, file, src string) (*ast.Module, hclspec.BundleErrors) {
	if i := manyDigits(src); i >= 0 {
		at := ast.NewLocation(nil, file, 1+strings.Count(src[:i], "\n"), i-strings.LastIndexByte(src[:i], '\n'))
		return nil, hclspec.BundleErrors{{Pos: positionOf(dir, at), Problem: fmt.Sprintf("a number of more than %d digits", hclspec.MaxDigits)}}
	}
	if blank(src) {
		return nil, hclspec.BundleErrors{{Pos: positionOf(dir, ast.NewLocation(nil, file, 1, 1)), Problem: "the file is empty"}}
	}
	module, err := ast.ParseModuleWithOpts(file, src, ast.ParserOptions{ProcessAnnotation: true, RegoVersion: ast.RegoV1})
	if err != nil {
		return nil, located(dir, file, err)
	}
	annotate(module)
	return module, nil
}

// blank reports whether there is nothing but comments in a Rego file.
func blank(src string) bool {
	for line := range strings.Lines(src) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			return false
		}
	}
	return true
}

// prepare compiles the queries, once for all evaluations.
func (p *policy) prepare() (err error) {
	var pair []string
	for _, rule := range p.rules {
		switch rule {
		case "deny", "score":
			pair = append(pair, rule)
		case "reject":
			p.reject, err = p.compileQuery(rule)
		case "protect":
			p.protect, err = p.compileQuery(rule)
		}
		if err != nil {
			return err
		}
	}
	if pair != nil {
		p.pair, err = p.compileQuery(pair...)
	}
	return err
}

// compileQuery binds each rule's value to a variable of the rule's name.
func (p *policy) compileQuery(rules ...string) (*query, error) {
	exprs := make([]*ast.Expr, len(rules))
	for i, rule := range rules {
		exprs[i] = ast.Equality.Expr(ast.VarTerm(rule), ast.NewTerm(p.pkg.Append(ast.StringTerm(rule))))
	}
	compiler := p.compiler.QueryCompiler()
	body, err := compiler.Compile(ast.NewBody(exprs...))
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", strings.Join(rules, ", "), err)
	}
	return &query{rules: rules, body: body, compiler: compiler}, nil
}

// located turns what OPA found wrong into positions and single lines. What has
// no place is put at the head of the file.
func located(dir, file string, err error) hclspec.BundleErrors {
	head := ast.NewLocation(nil, file, 1, 1)
	var list ast.Errors
	if !errors.As(err, &list) {
		return hclspec.BundleErrors{{Pos: positionOf(dir, head), Problem: err.Error()}}
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b *ast.Error) int { return a.Location.Compare(b.Location) })
	var out hclspec.BundleErrors
	for _, one := range list {
		problem := one.Message
		if detail, ok := one.Details.(*ast.RefErrInvalidDetail); ok {
			problem += hint(detail)
		}
		out = append(out, hclspec.BundleError{Pos: positionOf(dir, cmp.Or(one.Location, head)), Problem: problem})
	}
	return slices.Compact(out)
}

// hint says what could stand where a reference goes wrong.
func hint(detail *ast.RefErrInvalidDetail) string {
	if detail.Pos >= len(detail.Ref) || len(detail.OneOf) == 0 {
		return ""
	}
	word, ok := detail.Ref[detail.Pos].Value.(ast.String)
	if !ok {
		return ""
	}
	var known []string
	for _, value := range detail.OneOf {
		if name, ok := value.(ast.String); ok {
			known = append(known, string(name))
		}
	}
	slices.Sort(known)
	return fmt.Sprintf(": no %q among %s%s", string(word), strings.Join(known, ", "), hclspec.DidYouMean(string(word), known))
}

// positionOf is a place in a file whose path is relative to dir. OPA counts no
// column at the end of a file.
func positionOf(dir string, at *ast.Location) hclspec.Position {
	return hclspec.Position{File: inBundle(dir, at.File), Line: at.Row, Column: max(at.Col, 1)}
}

// inBundle is the path of a file of a bundle, for people.
func inBundle(dir, file string) string { return filepath.Join(dir, filepath.FromSlash(file)) }
