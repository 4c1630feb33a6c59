package policies

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"github.com/open-policy-agent/opa/v1/tester"
)

// Test runs the _test.rego files of a bundle with OPA's test runner and writes
// its report. Each policy is tested alone, with its own params as data.params
// and strict builtin errors, as it is evaluated. The tests of NAME.rego are
// those in NAME_test.rego; a test file of any other name belongs to each policy
// whose package it shares or refers to. failed counts tests that failed or
// erred; err is for tests that could not be run.
func (c Config) Test(ctx context.Context, dir string, w io.Writer, verbose bool) (failed int, err error) {
	set, err := c.Load(dir)
	if err != nil {
		return 0, err
	}
	tests, err := set.testModules()
	if err != nil {
		return 0, err
	}
	ran, used := 0, map[string]bool{}
	for _, p := range set.policies {
		modules := map[string]*ast.Module{}
		for file, module := range tests {
			if testsPolicy(file, module, p, set.policies) {
				modules[inBundle(dir, file)] = module.Copy()
				used[file] = true
			}
		}
		if len(modules) == 0 {
			fmt.Fprintf(w, "policy %s: no tests\n", p.spec.Name)
			continue
		}
		results, err := p.runTests(ctx, set, modules)
		if err != nil {
			return failed, err
		}
		ran += len(results)
		failed += failures(results)
		if err := report(w, p, results, verbose); err != nil {
			return failed, err
		}
	}
	for _, file := range slices.Sorted(maps.Keys(tests)) {
		if !used[file] {
			return failed, fmt.Errorf("%s: it tests no policy of the bundle", inBundle(dir, file))
		}
	}
	if ran == 0 {
		fmt.Fprintf(w, "ran 0 tests: %s has no rules named test_… in files named …_test.rego\n", dir)
	}
	return failed, nil
}

// testModules parses the test files of a bundle, by path within it.
func (s *Set) testModules() (map[string]*ast.Module, error) {
	modules := map[string]*ast.Module{}
	for _, file := range s.files.rego() {
		if !strings.HasSuffix(file, "_test.rego") {
			continue
		}
		module, errs := parseModule("", inBundle(s.files.path, file), string(s.files.content[file]))
		if errs != nil {
			return nil, errs
		}
		modules[file] = module
	}
	return modules, nil
}

func testsPolicy(file string, module *ast.Module, p *policy, all []*policy) bool {
	named := strings.TrimSuffix(file, "_test.rego") + ".rego"
	if slices.ContainsFunc(all, func(p *policy) bool { return p.spec.Rego == named }) {
		return p.spec.Rego == named
	}
	refers := module.Package.Path.Equal(p.pkg)
	ast.WalkRefs(module, func(ref ast.Ref) bool {
		refers = refers || ref.HasPrefix(p.pkg)
		return false
	})
	return refers
}

// runTests compiles the policy anew together with its tests.
func (p *policy) runTests(ctx context.Context, set *Set, modules map[string]*ast.Module) ([]*tester.Result, error) {
	file := inBundle(set.files.path, p.spec.Rego)
	module, errs := parseModule("", file, string(set.files.content[p.spec.Rego]))
	if errs != nil {
		return nil, errs
	}
	modules[file] = module
	store := inmem.NewFromASTObject(ast.NewObject(field("params", p.params)))
	compiled := newCompiler(limitsOf(set.files.path, set.bundle))
	channel, err := tester.NewRunner().SetCompiler(compiled).SetStore(store).
		SetModules(modules).
		RaiseBuiltinErrors(true).EnableTracing(true).CapturePrintOutput(true).RunTests(ctx, nil)
	if err != nil {
		return nil, located("", file, err)
	}
	var results []*tester.Result
	for result := range channel {
		results = append(results, result)
	}
	return results, ctx.Err()
}

func failures(results []*tester.Result) int {
	n := 0
	for _, result := range results {
		if result.Fail || result.Error != nil {
			n++
		}
	}
	return n
}

func report(w io.Writer, p *policy, results []*tester.Result, verbose bool) error {
	fmt.Fprintf(w, "policy %s\n", p.spec.Name)
	channel := make(chan *tester.Result, len(results))
	for _, result := range results {
		channel <- result
	}
	close(channel)
	if err := (tester.PrettyReporter{Output: w, Verbose: verbose, FailureLine: verbose}).Report(channel); err != nil {
		return fmt.Errorf("report tests of policy %q: %w", p.spec.Name, err)
	}
	return nil
}
