package policies

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/format"
	"github.com/open-policy-agent/opa/v1/tester"
)

func libraries(t *testing.T) []string {
	t.Helper()
	bundles, err := filepath.Glob(filepath.Join("library", "*", "bundle.hcl"))
	if err != nil || len(bundles) == 0 {
		t.Fatalf("no libraries: %v", err)
	}
	for i, bundle := range bundles {
		bundles[i] = filepath.Dir(bundle)
	}
	return bundles
}

func TestLibrary_PassesItsOwnTests(t *testing.T) {
	for _, dir := range libraries(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			set, err := Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			if warnings := set.Warnings(); warnings != nil {
				t.Errorf("warnings: %q", warnings)
			}
			var out bytes.Buffer
			failed, err := Config{}.Test(t.Context(), dir, &out, true)
			if err != nil || failed != 0 {
				t.Fatalf("%d failed, %v\n%s", failed, err, out.String())
			}
			if !strings.Contains(out.String(), "PASS: ") || strings.Contains(out.String(), "no tests") {
				t.Errorf("some policy has no tests:\n%s", out.String())
			}
		})
	}
}

func TestLibrary_IsFormatted(t *testing.T) {
	for _, dir := range libraries(t) {
		files, err := filepath.Glob(filepath.Join(dir, "*.rego"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			formatted, err := format.Source(file, src)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(src, formatted) {
				t.Errorf("%s is not formatted as opa fmt does; it would be:\n%s", file, formatted)
			}
		}
	}
}

// opa test knows nothing of bundle.hcl: the tests bring their own params.
func TestLibrary_PassesPlainOPATest(t *testing.T) {
	for _, dir := range libraries(t) {
		results, err := tester.Run(t.Context(), dir)
		if err != nil || len(results) == 0 {
			t.Fatalf("%s: %d tests, %v", dir, len(results), err)
		}
		for _, result := range results {
			if !result.Pass() {
				t.Errorf("%s: %s", dir, result)
			}
		}
	}
}
