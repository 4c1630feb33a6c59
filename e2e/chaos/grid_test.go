package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/psgrid/psg/bus"
	"github.com/psgrid/psg/bus/credentials"
	"github.com/psgrid/psg/e2e/cluster"
)

// process is a program that is started, killed and started again.
type process struct {
	t    *testing.T
	name string
	args []string
	env  []string
	wrap []string // a command it runs under, such as ip netns exec
	log  string

	cmd *exec.Cmd
}

func (p *process) start() {
	p.t.Helper()
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	defer out.Close()
	args := append(append([]string{}, p.wrap...), p.args...)
	p.cmd = exec.Command(args[0], args[1:]...)
	p.cmd.Env = append(os.Environ(), p.env...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) signal(s syscall.Signal) {
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Errorf("signal %s: %v", p.name, err)
	}
}

// kill ends it as a power cut would.
func (p *process) kill() {
	if p.cmd != nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		p.cmd = nil
	}
}

// grid is NATS servers and controllers, each a process of its own.
type grid struct {
	t           *testing.T
	servers     []*process
	urls        []string
	controllers []*process
	grpc, rest  []string
	creds       string // file of what embedded servers are shown; empty for others
}

const replicas = 3

// newGrid starts three NATS servers, seeds the ledger, and starts three
// controllers.
func newGrid(t *testing.T) *grid {
	t.Helper()
	dir := t.TempDir()
	g := &grid{t: t}
	t.Cleanup(g.stop) // before dir goes: it prints what is there
	clients, routes := addresses(t, replicas), addresses(t, replicas)
	for i := range replicas {
		g.urls = append(g.urls, "nats://"+clients[i])
		g.servers = append(g.servers, natsServer(t, dir, member{
			Dir: filepath.Join(dir, fmt.Sprint("nats-", i)), Listen: clients[i], Route: routes[i], Routes: routes,
		}))
		g.servers[i].start()
	}
	g.seed(replicas)
	for range replicas {
		g.addController(dir, "-nats", strings.Join(g.urls, ","), "-nats-replicas", fmt.Sprint(replicas))
	}
	return g
}

func natsServer(t *testing.T, dir string, m member) *process {
	t.Helper()
	encoded, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Base(m.Dir)
	return &process{t: t, name: name, args: []string{self}, env: []string{asServer + "=" + string(encoded)}, log: filepath.Join(dir, name+".log")}
}

// addController starts one more controller.
func (g *grid) addController(dir string, bus ...string) *process {
	g.t.Helper()
	return g.addControllerOn("127.0.0.1", nil, dir, bus...)
}

// addControllerOn starts one that answers on another address than loopback's,
// under a command that gives it that.
func (g *grid) addControllerOn(host string, wrap []string, dir string, bus ...string) *process {
	g.t.Helper()
	at := addresses(g.t, 2)
	for i, loopback := range at {
		_, port, _ := net.SplitHostPort(loopback)
		at[i] = net.JoinHostPort(host, port)
	}
	name := fmt.Sprint("controller-", len(g.controllers))
	bundle, err := filepath.Abs("../../policies/library/gpu_colocation")
	if err != nil {
		g.t.Fatal(err)
	}
	p := &process{
		t: g.t, name: name, wrap: wrap, log: filepath.Join(dir, name+".log"),
		args: append([]string{psg, "controller", "-name", name, "-bundle", bundle, "-grpc", at[0], "-http", at[1]}, bus...),
		env:  []string{"NOMAD_ADDR=http://127.0.0.1:1"}, // there is none
	}
	p.start()
	g.controllers = append(g.controllers, p)
	g.grpc, g.rest = append(g.grpc, at[0]), append(g.rest, at[1])
	return p
}

func (g *grid) stop() {
	for _, p := range append(g.controllers, g.servers...) {
		p.kill()
		if g.t.Failed() {
			if said, err := os.ReadFile(p.log); err == nil {
				g.t.Logf("%s said:\n%s", p.name, said[max(0, len(said)-40000):])
			}
		}
	}
}

// said logs what the controllers said last: why it took so long.
func (g *grid) said() {
	for _, p := range g.controllers {
		if said, err := os.ReadFile(p.log); err == nil {
			lines := strings.Split(strings.TrimSpace(string(said)), "\n")
			lines = slices.DeleteFunc(lines, func(line string) bool { return strings.Contains(line, "msg=decided") })
			g.t.Logf("%s said at last:\n%s", p.name, strings.Join(lines[max(0, len(lines)-40):], "\n"))
		}
	}
}

// status is what a controller says of itself.
type status struct {
	Leading  bool
	Epoch    uint64
	Sequence uint64
	Leader   struct{ Name string }
}

func (g *grid) status(i int) (s status, err error) {
	client := http.Client{Timeout: 2 * time.Second}
	response, err := client.Get("http://" + g.rest[i] + "/v1/status")
	if err != nil {
		return s, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(data, &s)
}

// leader waits until one of the running controllers leads.
func (g *grid) leader() int {
	g.t.Helper()
	found := -1
	eventually(g.t, patience, "a controller leads", func() bool {
		for i := range g.controllers {
			if s, err := g.status(i); err == nil && s.Leading {
				found = i
				return true
			}
		}
		return false
	})
	return found
}

// whole waits until every NATS server has all of every stream and each controller
// follows, or leads.
func (g *grid) whole() {
	g.t.Helper()
	js, _ := g.connect()
	eventually(g.t, patience, "the cluster is whole", func() bool {
		for _, name := range []string{"PSG_LEDGER", "PSG_AUDIT", "KV_PSG_LEASE"} {
			ctx, cancel := context.WithTimeout(g.t.Context(), time.Second)
			stream, err := js.Stream(ctx, name)
			cancel()
			if err != nil || !complete(stream.CachedInfo().Cluster) {
				return false
			}
		}
		for i := range g.controllers {
			if s, err := g.status(i); err != nil || s.Leader.Name == "" || s.Sequence == 0 {
				return false
			}
		}
		return true
	})
}

func complete(cluster *jetstream.ClusterInfo) bool {
	if cluster == nil || cluster.Leader == "" || len(cluster.Replicas) != replicas-1 {
		return false
	}
	for _, replica := range cluster.Replicas {
		if replica.Offline || !replica.Current {
			return false
		}
	}
	return true
}

// ledgerLeader is the NATS server that leads the ledger's stream.
func (g *grid) ledgerLeader() (index int) {
	g.t.Helper()
	js, _ := g.connect()
	eventually(g.t, patience, "a NATS server leads the ledger", func() bool {
		ctx, cancel := context.WithTimeout(g.t.Context(), time.Second)
		defer cancel()
		stream, err := js.Stream(ctx, "PSG_LEDGER")
		if err != nil || stream.CachedInfo().Cluster == nil {
			return false
		}
		index = slices.IndexFunc(g.servers, func(p *process) bool { return p.name == stream.CachedInfo().Cluster.Leader })
		return index >= 0
	})
	return index
}

// connect connects to the bus, past everything that is tested.
func (g *grid) connect() (jetstream.JetStream, *nats.Conn) {
	g.t.Helper()
	shown := func(*nats.Options) error { return nil }
	if g.creds != "" {
		shown = func(o *nats.Options) error {
			content, err := os.ReadFile(g.creds)
			if err != nil {
				return err
			}
			token, err := nkeys.ParseDecoratedJWT(content)
			return errors.Join(err, nats.UserCredentials(g.creds)(o), nats.Token(token)(o))
		}
	}
	conn, err := nats.Connect(strings.Join(g.urls, ","), shown, nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true), nats.ReconnectWait(100*time.Millisecond))
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		g.t.Fatal(err)
	}
	return js, conn
}

// operate has the test come to embedded servers as their operator.
func (g *grid) operate(issuer string) {
	g.t.Helper()
	signer, err := credentials.OpenOrCreate(issuer)
	if err != nil {
		g.t.Fatal(err)
	}
	content, err := signer.Issue(bus.RoleOperator, time.Time{})
	if err != nil {
		g.t.Fatal(err)
	}
	g.creds = filepath.Join(g.t.TempDir(), "operator.creds")
	if err := os.WriteFile(g.creds, content, 0o600); err != nil {
		g.t.Fatal(err)
	}
}

// addresses picks free ones on loopback.
func addresses(t *testing.T, n int) []string {
	t.Helper()
	return addressesOn(t, "127.0.0.1", n)
}

func addressesOn(t *testing.T, host string, n int) []string {
	t.Helper()
	picked, err := cluster.FreeAddressesOn(host, n)
	if err != nil {
		t.Fatal(err)
	}
	return picked
}

// patience is how long anything may take: a slow machine is no fault. How long
// things do take is logged.
const patience = 4 * time.Minute

func eventually(t *testing.T, limit time.Duration, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for poll := time.NewTicker(20 * time.Millisecond); !done(); {
		select {
		case <-ctx.Done():
			t.Fatalf("not within %s: %s", limit, what)
		case <-poll.C:
		}
	}
}
