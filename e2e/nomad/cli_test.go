package nomad_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

const cliHCL = `
variable "count" {
  type = number
}
variable "class" {
  type    = string
  default = "b"
}
variable "forbidden" {
  type    = list(string)
  default = []
}
job "cli" {
  group "g" {
    count = var.count
    task "gate" {
      driver = "psg"
      lifecycle {
        hook = "prestart"
      }
      config {
        labels = { for k, v in { class = var.class, forbidden = join(",", var.forbidden) } : k => v if v != "" }
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }
    task "main" {
      driver = "raw_exec"
      config {
        command = "/bin/sleep"
        args    = ["3600"]
      }
      kill_timeout = "1s"
      resources {
        cpu    = 100
        memory = 64
      }
    }
    update {
      min_healthy_time = "0s"
      health_check     = "task_states"
    }
  }
}
`

// exits runs a psg command and wants an exit code.
func (g *grid) exits(code int, args ...string) string {
	g.Helper()
	out, err := g.psg(args...)
	got := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		g.Fatal(err)
	}
	if got != code {
		g.Fatalf("psg %s: exit code %d, want %d\n%s", strings.Join(args, " "), got, code, out)
	}
	return out
}

func cliFile(t *testing.T) string {
	file := filepath.Join(t.TempDir(), "cli.nomad.hcl")
	if err := os.WriteFile(file, []byte(cliHCL), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func wants(t *testing.T, text string, all ...string) {
	t.Helper()
	for _, one := range all {
		if !strings.Contains(text, one) {
			t.Errorf("lacks %q:\n%s", one, text)
		}
	}
}

func TestCLI_PlansRunsAndShowsAJob(t *testing.T) {
	g, file := use(t), cliFile(t)
	wants(g.T, g.exits(255, "job", "plan", "-var", "count=many", file), "number")
	wants(g.T, g.exits(255, "job", "plan", "-var", "count=2", "-var", `forbidden=["why", "not"]`, file), "PSG refuses the job: 1 error occurred", "forbidden: why,not")
	wants(g.T, g.exits(1, "job", "plan", "-var", "count=2", file),
		`Job: "cli"`, `Task Group: "g" (2 create)`, "All tasks can be allocated", "PSG's placement", `group "g": `, " on node ", "Job modify index: 0")
	wants(g.T, g.exits(1, "job", "run", "-var", "count=2", "-var", `forbidden=["x"]`, file), "PSG refuses the job", "forbidden: x")

	var run struct{ Instances []psg.AskStatus }
	out := g.exits(0, "job", "run", "-json", "-var", "count=2", "-check-index", "0", file)
	if err := json.Unmarshal([]byte(out), &run); err != nil || len(run.Instances) != 2 {
		g.Fatalf("%v\n%s", err, out)
	}
	g.settled("cli", 2)
	submission, _, err := g.client.Jobs().Submission("cli", 0, nil)
	if err != nil || submission.Source != cliHCL || submission.VariableFlags["count"] != "2" {
		g.Errorf("Nomad keeps %+v, %v", submission, err)
	}
	wants(g.T, g.exits(0, "job", "plan", "-var", "count=2", file), `group "g": 2 on node`, "All tasks can be allocated")
	wants(g.T, g.exits(1, "job", "plan", "-var", "count=3", file), `"2" => "3"`)
	wants(g.T, g.exits(1, "job", "run", "-var", "count=2", "-check-index", "1", file), "conflicting job modify index")

	wants(g.T, g.exits(0, "job", "status"), "cli", "2 running")
	wants(g.T, g.exits(0, "job", "status", "cl"), "Steered", "2 running", "successful")
	if got := g.exits(0, "job", "status", "-t", "{{len .Instances}} {{(index .Workloads 0).Count}}", "cli"); got != "2 2\n" {
		g.Errorf("-t prints %q", got)
	}
	g.purge("cli")
}

// The reason of a refusal is the same wherever one may look for it.
func TestReasons_AreTheSameEverywhere(t *testing.T) {
	g, file := use(t), cliFile(t)
	out := g.exits(2, "job", "run", "-wait", "10s", "-var", "count=1", "-var", "class=none", file)
	var asks []psg.AskStatus
	g.get("/v1/asks?namespace=default&job=cli", &asks)
	var refused *psg.AskStatus
	for i := range asks {
		if asks[i].Refusal != nil && asks[i].Ask.Alloc != "" {
			refused = &asks[i]
		}
	}
	if refused == nil {
		g.Fatalf("nothing is refused: %+v", asks)
	}
	reason, alloc := refused.Refusal.Summary, string(refused.Ask.Alloc)
	if !strings.Contains(reason, "is not of class none") {
		g.Errorf("the reason is %q", reason)
	}
	wants(g.T, out, reason)
	wants(g.T, g.exits(0, "job", "explain", "cli"), reason)
	wants(g.T, g.exits(0, "alloc", "explain", alloc), reason)
	wants(g.T, g.exits(0, "job", "status", "cli"), reason)
	var shown string
	g.until(10*time.Second, "nomad shows the reason", func() bool {
		shown, _ = g.nomad(g.address, "alloc", "status", "-verbose", alloc)
		return strings.Contains(joined(shown), joined(reason))
	})
	found, _, err := g.client.Allocations().Info(alloc, nil)
	if err != nil {
		g.Fatal(err)
	}
	events := fmt.Sprint()
	for _, event := range found.TaskStates["gate"].Events {
		events += event.DisplayMessage + "\n"
	}
	wants(g.T, events, reason)
	g.purge("cli")
}

// joined is a text without its line breaks and runs of spaces.
func joined(text string) string { return strings.Join(strings.Fields(text), " ") }
