package policies

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/format"

	"github.com/psgrid/psg/hclspec"
)

// The snippets of docs/policy.md make one bundle: the first HCL is its
// bundle.hcl, each Rego snippet a file of its package's name. It must load
// without warnings and pass its tests.
func TestDocs_SnippetsWork(t *testing.T) {
	text := readFile(t, "../docs/policy.md")
	dir := t.TempDir()
	hcl := ""
	for _, snippet := range regexp.MustCompile("(?s)\n```(hcl|rego)\n(.*?)```").FindAllStringSubmatch(text, -1) {
		if snippet[1] == "hcl" {
			hcl += snippet[2]
			continue
		}
		name := regexp.MustCompile(`(?m)^package (\w+)$`).FindStringSubmatch(snippet[2])[1]
		if formatted, err := format.Source(name, []byte(snippet[2])); err != nil || string(formatted) != snippet[2] {
			t.Errorf("package %s is not as opa fmt writes it (%v):\n%s", name, err, formatted)
		}
		if err := os.WriteFile(filepath.Join(dir, name+".rego"), []byte(snippet[2]), 0o600); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(name, "_test") && !strings.Contains(hcl, name+".rego") {
			hcl += "policy \"" + name + "\" {\n  rego = \"" + name + ".rego\"\n}\n"
		}
	}
	if err := os.WriteFile(filepath.Join(dir, hclspec.BundleFile), []byte(hcl), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if warnings := set.Warnings(); warnings != nil || len(set.policies) < 3 {
		t.Errorf("%d policies, warnings %q", len(set.policies), warnings)
	}
	var out bytes.Buffer
	if failed, err := (Config{}).Test(t.Context(), dir, &out, true); err != nil || failed != 0 || !strings.Contains(out.String(), "PASS: 1/1") {
		t.Errorf("%d failed, %v\n%s", failed, err, out.String())
	}
}

func TestDocs_ListTheWholeLibrary(t *testing.T) {
	text := readFile(t, "../docs/policy.md")
	for _, dir := range libraries(t) {
		if !strings.Contains(text, "../policies/"+filepath.ToSlash(dir)+"/policy.rego") {
			t.Errorf("docs/policy.md does not list %s", dir)
		}
	}
}
