package nomad_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
	e2e "github.com/psgrid/psg/e2e/cluster"
	"github.com/psgrid/psg/shim"
)

// TestSecure takes the whole path on a cluster with ACLs and mTLS: proxy, gate,
// controller and its own token.
func TestSecure(t *testing.T) {
	t.Parallel() // it has a region of its own
	g := openRegion(t, layout{secure: true, nodes: three()[:2]})
	g.Run("the proxy has the caller's rights and no others", g.callersRights)
	g.Run("PSG's policy suffices to steer", g.steersWithItsPolicy)
	g.Run("and nothing in it is too much", g.needsItsPolicy)
	g.Run("a token that has expired is told of, and replaced", g.expires)
	g.Run("a token that may not submit is told of, and replaced", g.mayNotSubmit)
	g.Run("detach with PSG's policy", g.detachesWithItsPolicy)
}

// secureProxy starts a proxy that serves TLS and returns a client of it for each
// token. A management token in its environment is not to be used.
func (g *grid) secureProxy(t *testing.T) func(token string) *api.Client {
	at := freeAddress(t)
	process, err := e2e.Launch(g.dir, "proxy", g.env, programs.PSG, "shim", "proxy", "-listen", at, "-controllers", g.controller.URL(),
		"-tls-cert", g.operator.Cert, "-tls-key", g.operator.Key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := process.Stop(syscall.SIGTERM, 10*time.Second); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("proxy:\n%s", process.Output())
		}
	})
	with := func(token string) *api.Client {
		client, err := api.NewClient(&api.Config{Address: "https://" + at, SecretID: token, TLSConfig: &api.TLSConfig{CACert: g.operator.CA}})
		if err != nil {
			t.Fatal(err)
		}
		return client
	}
	g.until(10*time.Second, "the proxy serves", func() bool { _, err := with("").Status().Leader(); return err == nil })
	return with
}

func (g *grid) callersRights(t *testing.T) {
	with := g.secureProxy(t)
	deployer, err := g.allow("deployer", `namespace "default" { capabilities = ["submit-job", "read-job", "scale-job"] }`, 0)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := g.allow("reader", `namespace "default" { capabilities = ["read-job"] }`, 0)
	if err != nil {
		t.Fatal(err)
	}
	for name, token := range map[string]string{"a reader": reader, "nobody": ""} {
		if _, _, err := with(token).Jobs().Register(gated("web", 2, classB()), nil); err == nil || !strings.Contains(err.Error(), "Permission denied") {
			t.Errorf("%s registers a job: %v, want Nomad's refusal", name, err)
		}
		if _, _, err := with(token).Jobs().Plan(gated("web", 2, classB()), true, nil); err == nil || !strings.Contains(err.Error(), "Permission denied") {
			t.Errorf("%s plans a job: %v, want Nomad's refusal", name, err)
		}
	}
	g.until(10*time.Second, "what was planned is given back", func() bool { return g.asks("web", psg.Reserved) == 0 })
	if _, _, err := with(deployer).Jobs().Register(gated("web", 2, classB()), nil); err != nil {
		t.Fatal(err)
	}
	g.settled("web", 2)
	if on := g.runningOn("web"); on[psg.NodeID(g.nodes[0])] > 0 || *g.job("web").Version != 0 || !shim.Steered(g.job("web")) {
		t.Errorf("runs on %v in version %d, want class b at once", g.short(on), *g.job("web").Version)
	}
	if _, _, err := with(deployer).Jobs().Scale("web", "g", new(1), "fewer", false, nil, nil); err != nil {
		t.Errorf("scale with the deployer's token: %v", err)
	}
	if _, _, err := with(reader).Jobs().Scale("web", "g", new(2), "more", false, nil, nil); err == nil {
		t.Error("a reader has scaled the job")
	}
}

// drawnToA is a gated job of class b that Nomad by itself puts on class a.
func drawnToA(id string) *api.Job {
	job := gated(id, 1, classB())
	job.Affinities = append(job.Affinities, api.NewAffinity("${node.class}", "=", "a", 100))
	return job
}

func (g *grid) steersWithItsPolicy(t *testing.T) {
	g.register(drawnToA("steered"))
	g.until(30*time.Second, "it is brought to class b", func() bool { return g.runningOn("steered")[psg.NodeID(g.nodes[1])] == 1 })
	g.troubles(t, "")
	g.purge("steered")
}

// needsItsPolicy takes one right after the other away, which Nomad then refuses
// to PSG.
func (g *grid) needsItsPolicy(t *testing.T) {
	rules, err := documentedPolicy()
	if err != nil {
		t.Fatal(err)
	}
	g.register(gated("needs", 1, classB()))
	g.settled("needs", 1)
	needs := psg.JobID{Namespace: "default", Job: "needs"}
	steer := func(c *api.Client) error {
		hint := map[string]psg.Hint{"g": {psg.NodeID(g.nodes[0]): 1}}
		_, err := shim.NewEnactor(c).Steer(t.Context(), psg.Steering{Job: needs, Hints: hint}, func() error { return nil })
		return err
	}
	for right, use := range map[string]func(*api.Client) error{
		`"list-jobs"`: func(c *api.Client) error {
			_, _, err := c.Jobs().List(&api.QueryOptions{Namespace: api.AllNamespacesNamespace})
			return err
		},
		`"read-job"`: func(c *api.Client) error {
			_, err := shim.NewJobs(c).Workload(t.Context(), psg.WorkloadID{Namespace: "default", Job: "needs", Group: "g"})
			return err
		},
		`"submit-job"`:      steer,
		`"alloc-lifecycle"`: func(c *api.Client) error { return shim.NewEnactor(c).Stop(t.Context(), psg.AllocID(g.ids("needs")[0])) },
		`node {`:            func(c *api.Client) error { _, _, err := c.Nodes().List(nil); return err },
		`agent {`:           func(c *api.Client) error { _, err := c.Agent().Self(); return err },
	} {
		less := strings.ReplaceAll(strings.ReplaceAll(rules, right+", ", ""), ", "+right, "")
		if block := strings.Index(less, right); block >= 0 {
			less = less[:block] + less[block+strings.Index(less[block:], "}")+1:]
		}
		token, err := g.allow("less", less, 0)
		if err != nil {
			t.Fatalf("without %s: %v", right, err)
		}
		client, err := g.entry.Client(g.operator, token)
		if err != nil {
			t.Fatal(err)
		}
		if err := use(client); err == nil || !strings.Contains(err.Error(), "Permission denied") {
			t.Errorf("without %s: %v, want it refused", right, err)
		}
	}
	g.purge("needs")
}

// troubles waits until psg status tells of one, or of none if it is empty.
func (g *grid) troubles(t *testing.T, want string) {
	t.Helper()
	var out string
	if err := e2e.Until(context.Background(), 30*time.Second, fmt.Sprintf("psg status tells %q", want), func() (bool, error) {
		var err error
		out, err = g.psg("status")
		return err == nil && (want == "" && !strings.Contains(out, "Trouble") || want != "" && strings.Contains(out, want)), fmt.Errorf("%w: %s", err, out)
	}); err != nil {
		t.Fatal(err)
	}
}

// gateSays waits until a gate of a job has an event with a text.
func (g *grid) gateSays(t *testing.T, job, text string) {
	t.Helper()
	var said []string
	if err := e2e.Until(context.Background(), 30*time.Second, fmt.Sprintf("a gate of %s says %q", job, text), func() (bool, error) {
		said = nil
		for _, a := range g.allocs(job) {
			if gate := a.TaskStates["gate"]; gate != nil {
				for _, e := range gate.Events {
					said = append(said, e.DisplayMessage)
				}
			}
		}
		all := strings.Join(said, "\n")
		return strings.Contains(all, text), errors.New(all)
	}); err != nil {
		t.Fatal(err)
	}
}

func (g *grid) expires(t *testing.T) {
	rules, err := documentedPolicy()
	if err != nil {
		t.Fatal(err)
	}
	brief, err := g.allow("psg", rules, 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	lasting, err := g.allow("psg", rules, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.giveToken(brief); err != nil {
		t.Fatal(err)
	}
	g.restart(t)                                     // so that its event stream is of that token
	client, err := g.entry.Client(g.operator, brief) // one, since each keeps a connection
	if err != nil {
		t.Fatal(err)
	}
	g.until(20*time.Second, "Nomad refuses the token", func() bool { _, _, err := client.Nodes().List(nil); return err != nil })
	g.register(sleeper("event", 1, 50, 32)) // an event: Nomad looks at the token again
	g.troubles(t, "Nomad refuses PSG's token")
	g.register(gated("late", 1, classB())) // of which the controller cannot know
	g.gateSays(t, "late", "403 (Permission denied")
	g.until(20*time.Second, "the log tells", func() bool { return strings.Contains(g.controller.Output(), "nomad cannot be followed") })
	if err := g.giveToken(lasting); err != nil {
		t.Fatal(err)
	}
	g.until(30*time.Second, "the gate opens", func() bool { return g.total(g.runningOn("late")) == 1 })
	g.troubles(t, "")
	g.purge("event")
	g.purge("late")
}

func (g *grid) mayNotSubmit(t *testing.T) {
	weak, err := g.allow("weak", `namespace "*" { capabilities = ["list-jobs", "read-job"] }
node { policy = "read" }
agent { policy = "read" }`, 0)
	if err != nil {
		t.Fatal(err)
	}
	full, err := os.ReadFile(g.tokenFile())
	if err != nil {
		t.Fatal(err)
	}
	if err := g.giveToken(weak); err != nil {
		t.Fatal(err)
	}
	g.register(drawnToA("stray"))
	g.troubles(t, "lacks a right: Permission denied")
	g.gateSays(t, "stray", "elsewhere")
	g.until(20*time.Second, "the log tells", func() bool { return strings.Contains(g.controller.Output(), "job not steered") })
	if err := g.giveToken(strings.TrimSpace(string(full))); err != nil {
		t.Fatal(err)
	}
	g.until(90*time.Second, "it is brought to class b", func() bool { return g.runningOn("stray")[psg.NodeID(g.nodes[1])] == 1 })
	g.troubles(t, "")
}

func (g *grid) detachesWithItsPolicy(t *testing.T) {
	if !shim.Steered(g.job("stray")) {
		t.Fatal("nothing to detach")
	}
	g.settled("stray", 1)
	out, err := e2e.Command(t.Context(), g.controller.Nomad, programs.PSG, "shim", "detach", "-nomad-token-file", g.tokenFile())
	if err != nil || shim.Steered(g.job("stray")) {
		t.Errorf("%v\n%s", err, out)
	}
}
