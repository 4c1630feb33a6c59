package nomad_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	e2e "github.com/psgrid/psg/e2e/cluster"
	"github.com/psgrid/psg/rpc"
)

// node is how one client of a region is made.
type node struct {
	cpu, memory int
	class       string
}

// layout is what a region is made of.
type layout struct {
	servers int // one if zero
	nodes   []node
	secure  bool // ACLs, and mTLS everywhere
	bus     bool // a NATS server of its own
	quick   bool // a node that is silent for some seconds is down, gates open after 6 s without a controller
}

// openAfter is how long the gates of a quick region wait for a controller.
const openAfter = 6 * time.Second

// region is a real Nomad on loopback, servers and clients, with PSG's driver and
// a controller beside it.
type region struct {
	layout     layout
	dir        string
	servers    []*e2e.Agent
	clients    []*e2e.Agent
	entry      *e2e.Agent  // where Nomad is asked
	client     *api.Client // of the entry, with all rights
	address    string      // of the entry
	env        []string    // how programs reach it, with all rights
	nodes      []string    // node IDs, by client
	controller *e2e.Controller
	rest       *rpc.RESTClient
	bus        *e2e.Process // nil unless the layout has one
	busURL     string
	authority  *e2e.Authority // nil unless secure
	operator   *e2e.TLS       // of people, and PSG, towards Nomad
	token      string         // of the management, "" without ACLs
}

// newRegion lays out a region that does not run yet, below a directory.
func newRegion(dir string, l layout) (*region, error) {
	l.servers = max(l.servers, 1)
	ports, err := e2e.FreeAddresses(3*(l.servers+len(l.nodes)) + 3)
	if err != nil {
		return nil, err
	}
	take := func() string { address := ports[0]; ports = ports[1:]; return address }
	r := &region{layout: l, dir: dir, nodes: make([]string, len(l.nodes))}
	var peers []string
	for i := range l.servers {
		a := &e2e.Agent{Binary: nomadPath, Dir: filepath.Join(dir, fmt.Sprint("server", i)), Name: fmt.Sprint("server", i), HTTP: take(), RPC: take(), Serf: take()}
		peers = append(peers, a.Serf)
		r.servers = append(r.servers, a)
	}
	for i := range l.nodes {
		r.clients = append(r.clients, &e2e.Agent{Binary: nomadPath, Dir: filepath.Join(dir, fmt.Sprint("client", i)), Name: fmt.Sprint("client", i), HTTP: take(), RPC: take(), Serf: take()})
	}
	r.controller = &e2e.Controller{Binary: programs.PSG, Dir: filepath.Join(dir, "controller"), Bundle: filepath.Join("testdata", "classes"), GRPC: take(), REST: take()}
	r.busURL = take()
	if l.secure {
		if err := r.issue(); err != nil {
			return nil, err
		}
	}
	for _, a := range r.servers {
		a.Config = serverConfig(l, peers)
	}
	for i, a := range r.clients {
		a.Config = r.clientConfig(l.nodes[i], ownPlugins(a))
	}
	r.entry = r.servers[0]
	if l.servers > 1 {
		r.entry = r.clients[0] // which knows every server
	}
	r.address, r.env = r.entry.URL(), r.entry.Environ(r.operator, "")
	r.controller.Nomad = r.env
	if r.rest, err = rpc.NewRESTClient(r.controller.URL()); err != nil {
		return nil, err
	}
	return r, errors.Join(os.MkdirAll(r.controller.Dir, 0o755), r.plugins())
}

// start runs everything and returns when the controller knows every node.
func (r *region) start(ctx context.Context) error {
	if r.layout.bus {
		if err := r.startBus(); err != nil {
			return err
		}
		r.controller.NATS = "nats://" + r.busURL
	}
	for _, a := range append(slices.Clone(r.servers), r.clients...) {
		if err := a.Start(); err != nil {
			return err
		}
	}
	var err error
	if r.client, err = r.entry.Client(r.operator, ""); err != nil {
		return err
	}
	if err := e2e.Until(ctx, time.Minute, "nomad has a leader", func() (bool, error) {
		leader, err := r.client.Status().Leader()
		return err == nil && leader != "", err
	}); err != nil {
		return errors.Join(err, errors.New(r.servers[0].Output()))
	}
	if r.layout.secure {
		if err := r.secured(); err != nil {
			return err
		}
	}
	if err := e2e.Until(ctx, time.Minute, "every node is ready", r.ready); err != nil {
		return err
	}
	if err := r.controller.Start(ctx); err != nil {
		return err
	}
	return e2e.Until(ctx, time.Minute, "the controller knows the nodes", func() (bool, error) {
		nodes, err := r.rest.Nodes(ctx)
		ready := 0
		for _, n := range nodes {
			if n.Ready && slices.Contains(n.Drivers, "psg") {
				ready++
			}
		}
		return ready == len(r.nodes), errors.Join(err, fmt.Errorf("%d ready: %s", ready, r.controller.Output()))
	})
}

func (r *region) ready() (bool, error) {
	nodes, _, err := r.client.Nodes().List(nil)
	ready := 0
	for _, n := range nodes {
		var at int
		if _, scan := fmt.Sscanf(n.Name, "client%d", &at); scan == nil && n.Status == api.NodeStatusReady && n.Drivers["psg"] != nil && n.Drivers["psg"].Healthy {
			r.nodes[at] = n.ID
			ready++
		}
	}
	return ready == len(r.nodes), errors.Join(err, fmt.Errorf("%d ready", ready))
}

// end stops what runs: the tasks first, which a client would leave running; and
// removes its directory.
func (r *region) end() error {
	var errs []error
	dead := r.dead()
	if r.client != nil && r.entry.Running() {
		errs = append(errs, r.empty())
	}
	if r.controller.Process != nil {
		errs = append(errs, r.controller.Stop(syscall.SIGTERM, 10*time.Second))
	}
	for _, a := range append(slices.Clone(r.clients), r.servers...) {
		errs = append(errs, a.End())
	}
	if r.bus != nil {
		errs = append(errs, r.bus.Stop(syscall.SIGKILL, 5*time.Second))
	}
	return errors.Join(append(errs, r.clear(dead))...)
}

// empty purges every job once nothing of it runs: what is purged while it runs,
// nobody can wait for.
func (r *region) empty() error {
	everywhere := &api.QueryOptions{Namespace: api.AllNamespacesNamespace}
	for _, purge := range []bool{false, true} {
		jobs, _, err := r.client.Jobs().List(everywhere)
		if err != nil {
			return fmt.Errorf("end jobs: %w", err)
		}
		for _, job := range jobs {
			if _, _, err := r.client.Jobs().Deregister(job.ID, purge, &api.WriteOptions{Namespace: job.Namespace}); err != nil && !gone(err) {
				return fmt.Errorf("end job %s: %w", job.ID, err)
			}
		}
		if err := e2e.Until(context.Background(), 2*time.Minute, "no task runs", func() (bool, error) {
			allocs, _, err := r.client.Allocations().List(everywhere)
			running := slices.DeleteFunc(allocs, func(a *api.AllocationListStub) bool { return !live(a) })
			return err == nil && len(running) == 0, errors.Join(err, still(running))
		}); err != nil {
			return err
		}
	}
	return nil
}

// still names what runs.
func still(running []*api.AllocationListStub) error {
	var errs []error
	for _, a := range running {
		errs = append(errs, fmt.Errorf("%s of %s version %d: %s, wanted %s (%s)", a.ID, a.JobID, a.JobVersion, a.ClientStatus, a.DesiredStatus, a.DesiredDescription))
	}
	return errors.Join(errs...)
}

// live reports whether an allocation has tasks that run, or are about to.
func live(a *api.AllocationListStub) bool {
	return a.ClientStatus == api.AllocClientStatusRunning || a.ClientStatus == api.AllocClientStatusUnknown ||
		a.ClientStatus == api.AllocClientStatusPending && a.DesiredStatus == api.AllocDesiredStatusRun
}

func gone(err error) bool {
	var answer api.UnexpectedResponseError
	return errors.As(err, &answer) && answer.StatusCode() == http.StatusNotFound
}

// openRegion starts a region for one test alone.
func openRegion(t *testing.T, l layout) *grid {
	t.Helper()
	nomadBinary(t)
	dir, err := os.MkdirTemp(shared.dir, "own-")
	if err != nil {
		t.Fatal(err)
	}
	r, err := newRegion(dir, l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.end(); err != nil {
			t.Error(err)
		}
	})
	if err := r.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r.on(t)
}

// on is the region as a test uses it; it shows what the controller said, and what
// Nomad has, should the test fail.
func (r *region) on(t *testing.T) *grid {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("controller:\n%s\n%s\nnomad:\n%s", r.controller.Output(), r.ours(), r.told())
		}
	})
	return &grid{T: t, region: r}
}

// freeAddress is where nothing listens.
func freeAddress(t testing.TB) string {
	t.Helper()
	addresses, err := e2e.FreeAddresses(1)
	if err != nil {
		t.Fatal(err)
	}
	return addresses[0]
}
