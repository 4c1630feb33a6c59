package nomad_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
	e2e "github.com/psgrid/psg/e2e/cluster"
)

// coded runs a psg command with more in its environment, and returns its exit code.
func (g *grid) coded(env []string, args ...string) (string, int) {
	g.Helper()
	full := append(slices.Clone(g.env), "PSG_ADDR="+g.controller.URL())
	out, err := e2e.Command(context.Background(), append(full, env...), programs.PSG, args...)
	var exit *exec.ExitError
	switch {
	case err == nil:
		return out, 0
	case errors.As(err, &exit):
		return out, exit.ExitCode()
	}
	g.Fatal(err)
	return "", 0
}

func TestCLI_TakesWhatNomadTakesFromTheEnvironment(t *testing.T) {
	g, file := use(t), cliFile(t)
	if _, err := g.client.Namespaces().Register(&api.Namespace{Name: "ml"}, nil); err != nil {
		t.Fatal(err)
	}
	in := []string{"NOMAD_NAMESPACE=ml", "NOMAD_REGION=global", "NOMAD_VAR_count=1"}
	for _, step := range []struct {
		code int
		says string
		args []string
	}{
		{1, `group "g": 1 on node`, []string{"job", "plan", file}},
		{0, "running", []string{"job", "run", "-wait", "60s", file}},
		{0, "All tasks can be allocated", []string{"job", "plan", file}},
		{0, "cli", []string{"job", "status"}},
		{0, "Steered", []string{"job", "status", "cli"}},
		{0, "ml/cli/g", []string{"job", "explain", "cli"}},
		{0, "{", []string{"job", "explain", "-json", "cli"}},
	} {
		if out, code := g.coded(in, step.args...); code != step.code || !strings.Contains(out, step.says) && step.says != "running" {
			t.Errorf("psg %v: exit code %d, want %d and %q\n%s", step.args, code, step.code, step.says, out)
		}
	}
	job, _, err := g.client.Jobs().Info("cli", &api.QueryOptions{Namespace: "ml"})
	if err != nil || *job.TaskGroups[0].Count != 1 {
		t.Errorf("registered as %+v, %v", job, err)
	}
	if _, code := g.coded(nil, "job", "status", "cli"); code != 1 {
		t.Errorf("it is in the default namespace, too: exit code %d", code)
	}
	if err := g.empty(); err != nil {
		t.Fatal(err)
	}
	g.until(20*time.Second, "nothing of it is accounted any more", func() bool {
		asks, err := g.rest.Asks(context.Background(), "ml", "cli")
		known, failed := g.rest.Workloads(context.Background())
		return err == nil && failed == nil && !slices.ContainsFunc(asks, func(s psg.AskStatus) bool { return !s.Over() }) &&
			!slices.ContainsFunc(known, func(w psg.Workload) bool { return w.ID.Namespace == "ml" })
	})
}

func TestCLI_ExitCodes(t *testing.T) {
	g, file := use(t), cliFile(t)
	none := "00000000-0000-0000-0000-000000000000"
	for _, one := range []struct {
		code int
		env  []string
		args []string
	}{
		{1, nil, []string{"job", "status", "none"}}, {1, nil, []string{"job", "explain", "none"}}, {1, nil, []string{"alloc", "explain", none}},
		{1, nil, []string{"node", "status", none}}, {1, nil, []string{"node", "rebalance", none}},
		{2, nil, []string{"job", "status", "a", "b"}}, {2, nil, []string{"job", "run"}}, {2, nil, []string{"job", "status", "-json", "-t", "x"}},
		{2, nil, []string{"no", "command"}}, {255, nil, []string{"job", "plan"}}, {255, nil, []string{"job", "plan", "/none.hcl"}},
		{1, nil, []string{"job", "run", "/none.hcl"}}, {1, []string{"PSG_ADDR=http://127.0.0.1:1"}, []string{"node", "status"}},
		{1, []string{"PSG_ADDR=http://127.0.0.1:1"}, []string{"job", "run", "-var", "count=1", file}},
		{1, []string{"NOMAD_ADDR=http://127.0.0.1:1"}, []string{"job", "run", "-var", "count=1", file}},
		{255, []string{"NOMAD_ADDR=http://127.0.0.1:1"}, []string{"job", "plan", "-var", "count=1", file}},
		{0, nil, []string{"status"}}, {1, []string{"PSG_ADDR=http://127.0.0.1:1"}, []string{"status"}},
	} {
		if out, code := g.coded(one.env, one.args...); code != one.code || code != 0 && strings.TrimSpace(out) == "" {
			t.Errorf("%v psg %v: exit code %d, want %d and a reason\n%s", one.env, one.args, code, one.code, out)
		}
	}
	// nomad's own, of a job that it has and of one that it does not.
	for _, count := range []string{"1", "2"} {
		_, byPSG := g.coded(nil, "job", "plan", "-var", "count="+count, file)
		_, err := g.nomad(g.address, "job", "plan", "-var", "count="+count, file)
		var exit *exec.ExitError
		if errors.As(err, &exit); exit == nil || exit.ExitCode() != byPSG {
			t.Errorf("count %s: psg job plan exits with %d, nomad job plan with %v", count, byPSG, err)
		}
	}
}

// TestCLI_PrintsForProgramsAndForPeople asks the real thing for each form.
func TestCLI_PrintsForProgramsAndForPeople(t *testing.T) {
	g, file := use(t), filepath.Join(t.TempDir(), "printed.nomad.hcl")
	if err := os.WriteFile(file, []byte(strings.Replace(cliHCL, `job "cli"`, `job "printed"`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	g.exits(0, "job", "run", "-wait", "60s", "-var", "count=1", file)
	g.settled("printed", 1)
	alloc, node := g.ids("printed")[0], g.nodes[1]
	for _, args := range [][]string{
		{"job", "plan", "-var", "count=1", file}, {"job", "status"}, {"job", "status", "printed"}, {"job", "explain", "printed"}, {"alloc", "explain", alloc},
		{"node", "status"}, {"node", "status", node}, {"status"}, {"node", "rebalance", "-wait", "0s", node},
	} {
		var value any
		out, code := g.coded(nil, append(args, "-json")...)
		if err := json.Unmarshal([]byte(out), &value); code != 0 || err != nil {
			t.Errorf("psg %v -json: exit code %d, %v\n%s", args, code, err, out)
		}
		if out, code := g.coded(nil, append(args, "-t", "{{printf \"%T\" .}}")...); code != 0 || len(strings.Fields(out)) != 1 {
			t.Errorf("psg %v -t: exit code %d\n%s", args, code, out)
		}
		if out, code := g.coded(nil, args...); code != 0 || strings.HasPrefix(out, "{") {
			t.Errorf("psg %v: exit code %d\n%s", args, code, out)
		}
	}
	for _, args := range [][]string{{"job", "status", "printed"}, {"job", "plan", "-var", "count=1", file}, {"node", "status"}} {
		short, _ := g.coded(nil, args...)
		long, code := g.coded(nil, append(args, "-verbose")...)
		if code != 0 || len(long) <= len(short) || strings.Contains(short, node) {
			t.Errorf("psg %v -verbose: exit code %d\n%s\nand without\n%s", args, code, long, short)
		}
	}
	var found psg.Node
	out, _ := g.coded(nil, "node", "status", "-json", node)
	if err := json.Unmarshal([]byte(out), &found); err != nil || string(found.ID) != node {
		t.Errorf("%v\n%s", err, out)
	}
	for line, want := range map[string]string{"psg job sta": "status", "psg node status ": node, "psg alloc explain ": alloc, "psg job run -detac": "-detach"} {
		if out, _ := g.coded([]string{"COMP_LINE=" + line}); !slices.Contains(strings.Fields(out), want) {
			t.Errorf("%q completes as\n%s\nwithout %q", line, out, want)
		}
	}
}
