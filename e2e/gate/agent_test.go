package gate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/e2e/cluster"
)

// Nomad lists one card of the node and has handed it out; the agent finds three
// more through a library like NVIDIA's, one of them unwell. Those that are well
// are handed out, by name, each once.
func TestAgent_CardsThatItFindsAreHandedOut(t *testing.T) {
	if shared == nil {
		t.Skip(skipped)
	}
	library, agent := builtAgent(t)
	t.Parallel()
	g, bus := agentsGrid(t)
	nomads := g.run(t, "nomads-card").alloc(t)
	nomads.runs(t, "main")
	node := nomads.info(t).NodeID
	runAgent(t, agent, "-node", node, "-nats", "nats://"+bus, "-nvml", library, "-metrics", "", "-state-dir", filepath.Join(t.TempDir(), "state"))

	var devices []psg.Device
	await(t, 60*time.Second, "the controller knows four cards", func() (bool, error) {
		known, err := g.rest.Node(t.Context(), node)
		devices = known.Devices
		return err == nil && len(devices) == 4, errors.Join(err, fmt.Errorf("it knows %+v", devices))
	})
	listed, unwell, found := devices[0], devices[1], devices[2]
	if listed.Reported || listed.Model != "simulated" || listed.Link != "nvlink-0" || !found.Reported || found.MemoryMB != 80*1024 || unwell.Healthy {
		t.Errorf("it knows %+v", devices)
	}
	nomads.ask(t, psg.Running)

	training := g.run(t, "training").alloc(t)
	first := card(t, training.ask(t, psg.Running))
	training.prints(t, "card="+string(first)+" node="+node+" grant=granted\n")
	second := card(t, g.run(t, "wants-card").alloc(t).ask(t, psg.Running))
	got := []psg.DeviceID{first, second}
	if slices.Sort(got); !slices.Equal(got, []psg.DeviceID{"GPU-sim-2", "GPU-sim-3"}) {
		t.Errorf("handed out %s: want neither Nomad's card nor the one that is unwell", got)
	}
	another := filepath.Join(t.TempDir(), "another.nomad.hcl")
	text, err := os.ReadFile("testdata/wants-card.nomad.hcl")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(another, []byte(strings.Replace(string(text), `job "wants-card"`, `job "another"`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if queued := g.runFile(t, "another", another).alloc(t).ask(t, psg.Queued); !strings.Contains(queued.Refusal.Summary, "gpu") {
		t.Errorf("a third waits because of %q", queued.Refusal.Summary)
	}
}

// card is the only one that an ask holds.
func card(t *testing.T, status psg.AskStatus) psg.DeviceID {
	t.Helper()
	if len(status.Placement.Devices) != 1 {
		t.Fatalf("%s holds %+v, want one card", status.Ask.ID, status.Placement.Devices)
	}
	return status.Placement.Devices[0].Device
}

// builtAgent compiles the agent, and a library with four cards.
func builtAgent(t *testing.T) (library, agent string) {
	t.Helper()
	compiler, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("SKIPPED: no C compiler, an agent's cards were not tested on a real Nomad")
	}
	dir := t.TempDir()
	library, agent = filepath.Join(dir, "libnvidia-ml.so.1"), filepath.Join(dir, "psg-agent")
	for _, args := range [][]string{
		{compiler, "-DCARDS=4", "-shared", "-fPIC", "-o", library, "../../agent/gpu/testdata/nvml.c"},
		{"go", "build", "-o", agent, "../../cmd/psg-agent"},
	} {
		command := exec.Command(args[0], args[1:]...)
		command.Env = append(os.Environ(), "CGO_ENABLED=1")
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", args[0], err, output)
		}
	}
	return library, agent
}

// agentsGrid is a grid of its own, whose Nomad lists one card, and the address of
// its bus.
func agentsGrid(t *testing.T) (g *grid, bus string) {
	t.Helper()
	dir, err := os.MkdirTemp(filepath.Dir(shared.nomad.Dir), "agent-") // looked through, and removed, with all the rest
	if err != nil {
		t.Fatal(err)
	}
	if g, err = newGrid(dir, "a", shared.nomad.Binary, shared.nomad.Plugins, map[string]any{"fail_after": "10s"}); err != nil {
		t.Fatal(err)
	}
	addresses, err := cluster.FreeAddresses(1)
	if err != nil {
		t.Fatal(err)
	}
	g.nomad.Cards, g.controller.More = 1, []string{"-nats-listen", addresses[0]}
	g.watched(t)
	t.Cleanup(func() {
		if err := g.end(); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := g.start(ctx); err != nil {
		t.Fatal(err)
	}
	return g, addresses[0]
}

// runAgent runs the agent until the test ends.
func runAgent(t *testing.T, agent string, args ...string) {
	t.Helper()
	var output strings.Builder
	command := exec.Command(agent, args...)
	command.Stdout, command.Stderr = &output, &output
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		err := command.Wait()
		if err != nil || t.Failed() {
			t.Errorf("the agent ended with %v:\n%s", err, &output)
		}
	})
}
