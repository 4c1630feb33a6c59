package policies

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/psgrid/psg/hclspec"
)

// bundleDir writes the files of an archive, one "-- name --" section each.
func bundleDir(t testing.TB, archive string) string {
	t.Helper()
	dir := t.TempDir()
	writeFiles(t, dir, archive)
	return dir
}

func writeFiles(t testing.TB, dir, archive string) {
	t.Helper()
	for _, file := range txtar.Parse([]byte(archive)).Files {
		path := filepath.Join(dir, file.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, file.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func mustLoad(t testing.TB, config Config, archive string) *Set {
	t.Helper()
	set, err := config.Load(bundleDir(t, archive))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// Each testdata/wrong/NAME.txtar begins with part of the error expected.
func TestLoad_SaysWhatIsWrongAndWhere(t *testing.T) {
	cases, err := filepath.Glob("testdata/wrong/*.txtar")
	if err != nil || len(cases) == 0 {
		t.Fatal("no cases", err)
	}
	for _, name := range cases {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			writeFiles(t, dir, string(txtar.Format(archive)))
			set, err := Load(dir)
			want := strings.TrimSpace(string(archive.Comment))
			if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), ""), want) {
				t.Errorf("got  %v\nwant %s", err, want)
			}
			var errs hclspec.BundleErrors
			if !errors.As(err, &errs) || !strings.HasPrefix(errs[0].Pos.File, dir) || errs[0].Pos.Line < 1 || errs[0].Pos.Column < 1 {
				t.Errorf("error without a position: %v", err)
			}
			if set != nil {
				t.Error("half loaded")
			}
		})
	}
}

func TestLoad_ReportsAllPoliciesAtOnce(t *testing.T) {
	_, err := Load(bundleDir(t, `
-- bundle.hcl --
bundle "b" {}
policy "p" {
  rego = "p.rego"
}
policy "q" {
  rego = "q.rego"
}
-- p.rego --
package p
deny contains "x" if input.wrkload
-- q.rego --
package q
deny := 3
`))
	if err == nil || !strings.Contains(err.Error(), "p.rego:2:22") || !strings.Contains(err.Error(), "q.rego:2:1") {
		t.Error(err)
	}
}

const suspicious = `
-- bundle.hcl --
bundle "b" {
  version = "2"
}
policy "p" {
  rego   = "p.rego"
  params = { limit = 3 }
}
-- p.rego --
package p

deny contains "x" if input.workload.gpus > data.params.limt

denny contains "y" if input.workload.gpus > 3

unused if helper

helper if input.workload.gpus > 3

test_own if deny
-- stray.rego --
package stray
`

func TestLoad_WarnsOfWhatIsLikelyAMistake(t *testing.T) {
	dir := bundleDir(t, suspicious)
	set, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`p.rego:3:44: params has no "limt", so this is undefined; did you mean "limit"?`,
		`p.rego:5:1: rule denny is never used; did you mean "deny"?`,
		`p.rego:7:1: rule unused is never used`,
		`p.rego:9:1: rule helper is never used`,
		`stray.rego: no policy of the bundle uses this file`,
	}
	got := set.Warnings()
	for i := range got {
		got[i] = strings.TrimPrefix(got[i], dir+string(filepath.Separator))
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestCheck_DescribesTheBundle(t *testing.T) {
	var out bytes.Buffer
	if err := (Config{}).Check("library/compliance", &out, false); err != nil {
		t.Fatal(err)
	}
	want := "bundle compliance 1.0.0: policies=1 aggregates=0 tenants=0 sources=1\n" +
		"policy compliance: enforce, policy.rego, deny reject, reads input.now data.cmdb\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
	out.Reset()
	if err := (Config{}).Check(bundleDir(t, suspicious), &out, false); err != nil || !strings.Contains(out.String(), "warning: ") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestTest_CountsFailuresAndRunsEachPolicyWithItsParams(t *testing.T) {
	var out bytes.Buffer
	failed, err := Config{}.Test(t.Context(), bundleDir(t, `
-- bundle.hcl --
bundle "b" {}
policy "three" {
  rego   = "p.rego"
  params = { limit = 3 }
}
policy "four" {
  rego   = "p.rego"
  params = { limit = 4 }
}
-- p.rego --
package p

deny contains "x" if input.workload.gpus > data.params.limit
-- p_test.rego --
package p_test

import data.p

test_four_is_too_many if count(p.deny) == 1 with input.workload.gpus as 4

test_error if count(p.deny) == 0 with input.workload.gpus as to_number("x")
`), &out, false)
	if err != nil || failed != 3 {
		t.Errorf("%d failed, %v", failed, err)
	}
	for _, want := range []string{"policy three\n", "policy four\n", "test_four_is_too_many: FAIL", "PASS: 1/2", "FAIL: 1/2", "ERROR: 1/2", "to_number"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestTest_SaysThatNothingRan(t *testing.T) {
	var out bytes.Buffer
	failed, err := Config{}.Test(t.Context(), bundleDir(t, suspicious), &out, false)
	if failed != 0 || err != nil || !strings.Contains(out.String(), "ran 0 tests") {
		t.Errorf("%d, %v\n%s", failed, err, out.String())
	}
}

func TestTest_RefusesTestsOfNoPolicy(t *testing.T) {
	dir := bundleDir(t, suspicious+"-- other_test.rego --\npackage other_test\n\ntest_x if true\n")
	_, err := Config{}.Test(t.Context(), dir, &bytes.Buffer{}, false)
	if err == nil || !strings.Contains(err.Error(), "other_test.rego: it tests no policy of the bundle") {
		t.Error(err)
	}
}

func TestStore_KeepsTheOldSetWhenTheNewOneIsWrong(t *testing.T) {
	dir := bundleDir(t, suspicious)
	store, err := NewStore(dir, Config{})
	if err != nil {
		t.Fatal(err)
	}
	before := store.Current()
	writeFiles(t, dir, "-- p.rego --\npackage p\ndeny := 1\n")
	if err := store.Reload(dir); err == nil || !strings.Contains(err.Error(), "p.rego:2:1: deny must be a set") {
		t.Error(err)
	}
	if store.Current() != before {
		t.Error("the set changed")
	}
	writeFiles(t, dir, "-- p.rego --\npackage p\ndeny contains \"x\" if input.workload.gpus > 0\n")
	if err := store.Reload(dir); err != nil || store.Current() == before {
		t.Errorf("not reloaded: %v", err)
	}
}

func readFile(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestDeterministic_LeavesNoOtherBuiltin(t *testing.T) {
	capabilities := deterministic()
	if len(capabilities.Builtins) < 150 {
		t.Errorf("only %d builtins are left", len(capabilities.Builtins))
	}
	for _, builtin := range capabilities.Builtins {
		if builtin.IsNondeterministic() {
			t.Errorf("%s is left", builtin.Name)
		}
	}
}

func TestLoad_PlacesWhatIsWrongAtTheEnds(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "p.rego:1:1: the file is empty",
		"\n \n":                                "p.rego:1:1: the file is empty",
		"# nothing but this\n":                 "p.rego:1:1: the file is empty",
		"package p\n\ndeny contains 1 if {\n":  "p.rego:4:1: unexpected eof token",
		"package p\n\ndeny contains \"x\" if ": "p.rego:3:",
	} {
		dir := bundleDir(t, "-- bundle.hcl --\nbundle \"b\" {}\npolicy \"p\" {\n  rego = \"p.rego\"\n}\n")
		if err := os.WriteFile(filepath.Join(dir, "p.rego"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Config{}.Load(dir)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), ":0") || strings.Contains(err.Error(), "rego_parse_error") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
