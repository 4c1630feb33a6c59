// Package deploy_test checks the job files, units and configurations that operators
// start from. e2e/nomad runs the jobs on a real Nomad.
package deploy_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/psgrid/psg/hclspec"
	"github.com/psgrid/psg/shim"
)

func files(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) == 0 {
		t.Fatalf("no files %s: %v", pattern, err)
	}
	return found
}

func TestJobs_AreJobsOfNomadsAlone(t *testing.T) {
	nomad, err := exec.LookPath("nomad")
	if err != nil {
		t.Skip("SKIPPED: no nomad on PATH to read the jobs with")
	}
	for _, file := range files(t, "nomad/*.nomad.hcl") {
		job, err := exec.Command(nomad, "job", "run", "-output", file).Output()
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		made, err := shim.Translate(job)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		for _, w := range made.Workloads {
			for _, task := range w.Tasks {
				if task.Driver == shim.Driver {
					t.Errorf("%s: task %q would wait for the controller that it is part of", file, task.Name)
				}
			}
		}
	}
}

// Every HCL file can be read where there is no nomad, too.
func TestHCL_IsRead(t *testing.T) {
	for _, file := range files(t, "nomad/*.hcl") {
		if _, problems := hclparse.NewParser().ParseHCLFile(file); problems.HasErrors() {
			t.Error(problems)
		}
	}
}

func TestClient_ConfiguresThePlugin(t *testing.T) {
	file, problems := hclparse.NewParser().ParseHCLFile("nomad/client.hcl")
	if problems.HasErrors() {
		t.Fatal(problems)
	}
	for _, block := range file.Body.(*hclsyntax.Body).Blocks {
		if block.Type != "plugin" {
			continue
		}
		if block.Labels[0] != "nomad-driver-psg" {
			t.Errorf("plugin %q: Nomad finds it by the name of its file", block.Labels[0])
		}
		plugin, err := hclspec.DecodePlugin(values(t, block.Body.Blocks[0].Body))
		if err != nil || len(plugin.Controllers) != 3 || plugin.TLS == nil {
			t.Errorf("%+v, %v", plugin, err)
		}
	}
	nomad, err := exec.LookPath("nomad")
	if err != nil {
		t.Skip("SKIPPED: no nomad on PATH to validate it with")
	}
	rest := filepath.Join(t.TempDir(), "rest.hcl")
	if err := os.WriteFile(rest, []byte("data_dir = \"/tmp\"\nclient {\n  enabled = true\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(nomad, "config", "validate", "nomad/client.hcl", rest).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// values is a block of constants as JSON would have it.
func values(t *testing.T, body *hclsyntax.Body) map[string]any {
	t.Helper()
	out := map[string]any{}
	for name, attribute := range body.Attributes {
		value, problems := attribute.Expr.Value(nil)
		if problems.HasErrors() {
			t.Fatal(problems)
		}
		data, err := ctyjson.Marshal(value, value.Type())
		if err != nil {
			t.Fatal(err)
		}
		var plain any
		if err := json.Unmarshal(data, &plain); err != nil {
			t.Fatal(err)
		}
		out[name] = plain
	}
	for _, block := range body.Blocks {
		out[block.Type] = values(t, block.Body)
	}
	return out
}

// program is what a unit runs, which is not installed where it is tested.
var program = regexp.MustCompile(`/usr/local/bin/[a-z-]+`)

func TestUnits_AreVerified(t *testing.T) {
	verify, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("SKIPPED: no systemd-analyze on PATH to verify units with")
	}
	dir := t.TempDir()
	var units []string
	for _, file := range files(t, "systemd/*.service") {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		unit := filepath.Join(dir, filepath.Base(file))
		if err := os.WriteFile(unit, program.ReplaceAll(data, []byte("/bin/true")), 0o600); err != nil {
			t.Fatal(err)
		}
		units = append(units, unit)
	}
	out, err := exec.Command(verify, append([]string{"verify", "--man=no"}, units...)...).CombinedOutput()
	if err != nil || strings.Contains(string(out), dir) { // what it warns of names the unit
		t.Errorf("%v\n%s", err, out)
	}
}
