package footprint

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg/e2e/cluster"
)

// A real Nomad's task is found by the group that Nomad made for it.
func TestAgent_FindsWhatNomadRuns(t *testing.T) {
	nomad, err := exec.LookPath("nomad")
	if err != nil || os.Geteuid() != 0 {
		t.Skip("SKIPPED: this needs nomad on PATH, and root")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	agent := build(t, "cmd/psg-agent")
	dir, err := os.MkdirTemp("", "psgf") // short: Nomad has sockets below it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	binaries, err := cluster.Build(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	addresses, err := cluster.FreeAddresses(2)
	if err != nil {
		t.Fatal(err)
	}
	n := &cluster.Nomad{
		Binary: nomad, Plugins: binaries, Dir: dir, HTTP: addresses[0],
		Settings: map[string]any{"controllers": []string{addresses[1]}}, // none is there, none is needed
	}
	t.Cleanup(func() {
		if n.Process != nil {
			if err := n.End(); err != nil {
				t.Error(err)
			}
		}
	})
	if err := n.Start(ctx); err != nil {
		t.Fatal(err)
	}
	alloc := runSleep(ctx, t, n)
	if err := cluster.Until(ctx, 30*time.Second, "the agent finds the task", func() (bool, error) {
		out, err := exec.CommandContext(ctx, agent, "-check").Output()
		for line := range strings.Lines(string(out)) {
			if f := strings.Fields(line); len(f) > 2 && f[0] == alloc && f[1] == "main" {
				return f[2] != "unknown", err // CPU
			}
		}
		return false, err
	}); err != nil {
		t.Fatal(err)
	}
}

// runSleep runs a job of one task and returns its allocation's ID. The job ends
// with the test.
func runSleep(ctx context.Context, t *testing.T, n *cluster.Nomad) (alloc string) {
	t.Helper()
	const id = "sleep"
	task := api.NewTask("main", "raw_exec").SetConfig("command", "/bin/sleep").SetConfig("args", []string{"3600"})
	job := api.NewServiceJob(id, id, "global", 50).AddDatacenter("*").AddTaskGroup(api.NewTaskGroup("g", 1).AddTask(task))
	if _, _, err := n.Client.Jobs().Register(job, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, _, err := n.Client.Jobs().Deregister(id, true, nil); err != nil {
			t.Error(err)
		}
		if err := cluster.Until(context.Background(), 20*time.Second, "the task has ended", func() (bool, error) {
			ended, _, err := n.Client.Allocations().Info(alloc, nil)
			return err == nil && ended.ClientTerminalStatus() || errors.As(err, new(api.UnexpectedResponseError)), nil
		}); err != nil {
			t.Error(err)
		}
	})
	if err := cluster.Until(ctx, time.Minute, "the task runs", func() (bool, error) {
		stubs, _, err := n.Client.Jobs().Allocations(id, false, nil)
		if err != nil || len(stubs) != 1 {
			return false, err
		}
		alloc = stubs[0].ID
		return stubs[0].ClientStatus == api.AllocClientStatusRunning, nil
	}); err != nil {
		t.Fatal(err)
	}
	return alloc
}
