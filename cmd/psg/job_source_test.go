package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/nomad/api"
)

func TestExpression_IsTheValueInHCL(t *testing.T) {
	for value, want := range map[string]string{
		"3": `"3"`, `say "hi" \ 100%`: `"say \"hi\" \\ 100%"`, "two\nlines": `"two\nlines"`, "${not} %{hcl}": `"$${not} %%{hcl}"`,
		`["a", "b"]`: `["a", "b"]`, ` {a = 1}`: ` {a = 1}`, "": `""`,
	} {
		got := expression(value)
		if got != want {
			t.Errorf("%q becomes %s, want %s", value, got, want)
		}
		file, problems := hclparse.NewParser().ParseHCL([]byte("x = "+got+"\n"), "x")
		if problems.HasErrors() {
			t.Errorf("%q: %v", value, problems)
			continue
		}
		attributes, _ := file.Body.JustAttributes()
		if said, problems := attributes["x"].Expr.Value(nil); problems.HasErrors() || strings.HasPrefix(want, `"`) && said.AsString() != value {
			t.Errorf("%q is read as %#v, %v", value, said, problems)
		}
	}
}

func TestJobSource_TakesVariablesInTheirOrder(t *testing.T) {
	t.Setenv("NOMAD_VAR_count", "1")
	t.Setenv("NOMAD_VAR_region", "eu")
	t.Setenv("NOMAD_VAR_other", "not for this job")
	file := filepath.Join(t.TempDir(), "v.hcl")
	if err := os.WriteFile(file, []byte(`tier = "gold"`), 0o600); err != nil {
		t.Fatal(err)
	}
	s := jobSource{variables: list{"count=2", "image=a=b"}, files: list{file}}
	files, flags, err := s.values("variable \"count\" {}\n  variable \"region\" {}\n")
	want := map[string]string{"count": "2", "region": "eu", "image": "a=b"}
	if err != nil || files != "tier = \"gold\"\n" || !reflect.DeepEqual(flags, want) {
		t.Errorf("%q, %v, %v", files, flags, err)
	}
	if _, _, err := (&jobSource{variables: list{"count"}}).values(""); err == nil || !strings.Contains(err.Error(), `-var "count" is not name=value`) {
		t.Errorf("%v", err)
	}
}

func TestShowDiff_PrintsWhatChangesAndOnRequestTheRest(t *testing.T) {
	diff := &api.JobDiff{Type: "Edited", ID: "web", Fields: []*api.FieldDiff{{Type: "None", Name: "Priority", Old: "50", New: "50"}}, TaskGroups: []*api.TaskGroupDiff{
		{Type: "Edited", Name: "g", Updates: map[string]uint64{"in-place update": 1, "create": 2}, Fields: []*api.FieldDiff{
			{Type: "Edited", Name: "Count", Old: "1", New: "3", Annotations: []string{"forces create"}},
		}, Tasks: []*api.TaskDiff{{Type: "Added", Name: "main", Objects: []*api.ObjectDiff{{Type: "Added", Name: "Config", Fields: []*api.FieldDiff{{Type: "Added", Name: "command", New: "x"}}}}}}},
		{Type: "None", Name: "other"},
	}}
	for all, want := range map[bool]string{
		false: "+/- Job: \"web\"\n+/- Task Group: \"g\" (2 create, 1 in-place update)\n+/-   Count: \"1\" => \"3\" (forces create)\n" +
			"+     Task: \"main\"\n+       Config {\n+         command: \"x\"\n        }\n",
		true: "+/- Job: \"web\"\n      Priority: \"50\"\n+/- Task Group: \"g\" (2 create, 1 in-place update)\n+/-   Count: \"1\" => \"3\" (forces create)\n" +
			"+     Task: \"main\"\n+       Config {\n+         command: \"x\"\n        }\n    Task Group: \"other\"\n",
	} {
		var out strings.Builder
		p := &printer{w: &out}
		showDiff(p, diff, all)
		if p.err != nil || out.String() != want {
			t.Errorf("all %t: %v\n%s\nwant\n%s", all, p.err, out.String(), want)
		}
	}
}
