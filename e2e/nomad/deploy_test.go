package nomad_test

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
	e2e "github.com/psgrid/psg/e2e/cluster"
)

// old names the revision whose gates TestUpgrade runs.
var old = flag.String("old", "", "revision of which TestUpgrade builds the driver, such as a release's tag")

// TestDeploy_PSGRunsOnTheNomadThatItPlacesFor runs deploy's jobs as an operator
// would, and then a gated one.
func TestDeploy_PSGRunsOnTheNomadThatItPlacesFor(t *testing.T) {
	g := bare(t, layout{nodes: three()}, programs.Driver)
	if _, err := g.client.Namespaces().Register(&api.Namespace{Name: "psg"}, nil); err != nil {
		t.Fatal(err)
	}
	agent := filepath.Join(g.dir, "psg-agent")
	if out, err := exec.Command("go", "build", "-o", agent, "github.com/psgrid/psg/cmd/psg-agent").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	bundle, err := filepath.Abs(filepath.Join("testdata", "classes"))
	if err != nil {
		t.Fatal(err)
	}
	deploy := func(job string, vars ...string) {
		args := []string{"job", "run", "-detach"}
		for _, v := range vars {
			args = append(args, "-var", v)
		}
		if out, err := g.nomad(g.address, append(args, filepath.Join(programs.Root, "deploy", "nomad", job+".nomad.hcl"))...); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	ports := fmt.Sprintf("ports={grpc=%s, http=%s, nats=%s}", port(g.controller.GRPC), port(g.controller.REST), port(g.busURL))
	deploy("controller", "node=client0", "command="+programs.PSG, "bundle="+bundle, "data_dir="+filepath.Join(g.dir, "ledger"), "nomad_address="+g.address, ports)
	g.until(60*time.Second, "the controller knows the nodes", func() bool { return g.knows(func(n psg.Node) bool { return n.Ready }) })
	deploy("agent", "command="+agent, "state_dir=${NOMAD_TASK_DIR}/state") // nothing is left in /run
	g.until(60*time.Second, "each node's agent measures it", func() bool { return g.knows(func(n psg.Node) bool { return n.Telemetry != nil }) })
	g.register(gated("web", 2, classB()))
	g.settled("web", 2)
	if on := g.runningOn("web"); on[psg.NodeID(g.nodes[0])] > 0 {
		t.Errorf("web runs on %v, which its policy denies", g.short(on))
	}
	g.purge("web")
}

// TestUpgrade_OldGatesAskANewController runs the driver of an older revision with
// the controller of this one.
func TestUpgrade_OldGatesAskANewController(t *testing.T) {
	if *old == "" {
		t.Skip("SKIPPED: no -old REVISION whose driver to build: old gates were not run with this controller")
	}
	nomadBinary(t)
	g := bare(t, layout{nodes: three()}, driverOf(t, *old))
	if err := g.controller.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.until(30*time.Second, "the controller knows the nodes", func() bool { return g.knows(func(n psg.Node) bool { return n.Ready }) })
	g.register(gated("web", 3, classB()))
	g.settled("web", 3)
	denied := classB()
	denied["labels"] = map[string]string{"class": "none"}
	g.register(gated("denied", 1, denied))
	g.until(20*time.Second, "an old gate tells the reason", func() bool {
		for _, a := range g.allocs("denied") {
			gate := a.TaskStates["gate"]
			if gate == nil {
				continue
			}
			for _, event := range gate.Events {
				if strings.Contains(event.DisplayMessage, "is not of class none") {
					return true
				}
			}
		}
		return false
	})
	from := g.busiest("web")
	if _, err := g.client.Nodes().ToggleEligibility(from, false, nil); err != nil {
		t.Fatal(err)
	}
	if made, err := g.rebalance(t, "-empty", "-wait", "40s", from); err != nil || made.On != 0 {
		t.Errorf("%v: %+v", err, made)
	}
}

// driverOf builds the driver of a revision.
func driverOf(t *testing.T, revision string) string {
	t.Helper()
	source, driver := t.TempDir(), filepath.Join(t.TempDir(), "nomad-driver-psg")
	for _, step := range [][]string{
		{"sh", "-c", `git -C "$0" archive "$1" | tar -x -C "$2"`, programs.Root, revision, source},
		{"go", "build", "-C", source, "-o", driver, "./cmd/nomad-driver-psg"},
	} {
		if out, err := exec.Command(step[0], step[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("driver of %s: %v\n%s", revision, err, out)
		}
	}
	return driver
}

// bare is a Nomad whose clients have a driver, and whose jobs' ports are on
// loopback. No controller runs yet.
func bare(t *testing.T, l layout, driver string) *grid {
	t.Helper()
	nomadBinary(t)
	dir, err := os.MkdirTemp(shared.dir, "bare-")
	if err != nil {
		t.Fatal(err)
	}
	r, err := newRegion(dir, l)
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(r.pluginDir(), "nomad-driver-psg")
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(driver, link); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.end(); err != nil {
			t.Error(err)
		}
	})
	for _, a := range r.clients {
		a.Config["client"].(map[string]any)["network_interface"] = "lo"
	}
	for _, a := range append(r.servers[:len(r.servers):len(r.servers)], r.clients...) {
		if err := a.Start(); err != nil {
			t.Fatal(err)
		}
	}
	if r.client, err = r.entry.Client(r.operator, ""); err != nil {
		t.Fatal(err)
	}
	g := &grid{T: t, region: r}
	if err := e2e.Until(t.Context(), 2*time.Minute, "every node is ready", r.ready); err != nil {
		t.Fatalf("%v\n%s", err, r.clients[0].Output())
	}
	return g
}

// knows reports whether the controller knows every node, each of which suits.
func (g *grid) knows(suits func(psg.Node) bool) bool {
	ctx, cancel := context.WithTimeout(g.Context(), 5*time.Second)
	defer cancel()
	nodes, err := g.rest.Nodes(ctx)
	n := 0
	for _, node := range nodes {
		if suits(node) {
			n++
		}
	}
	return err == nil && n == len(g.nodes)
}

// port is that of a host:port.
func port(address string) string {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		panic(err) // the tests' own addresses
	}
	return port
}
