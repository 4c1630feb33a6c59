package bus

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/bus/credentials"
	embeddedserver "github.com/psgrid/psg/bus/server"
)

// guarded is a server with permissions: how each role connects to it.
type guarded func(role string) Config

// documented runs a server on the configuration that docs/bus.md gives.
func documented(t *testing.T) guarded {
	t.Helper()
	page, err := os.ReadFile("../docs/bus.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(page), "```nats\n")
	block, _, closed := strings.Cut(block, "```")
	if !found || !closed {
		t.Fatal("docs/bus.md has no configuration")
	}
	for _, user := range []string{"CONTROLLER", "AGENT_N1", "AUDITOR", "DRIVER", "TENANT", "OPERATOR"} {
		t.Setenv(user+"_PASSWORD", "secret")
	}
	name := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(name, []byte(block), 0o600); err != nil {
		t.Fatal(err)
	}
	options, err := server.ProcessConfigFile(name)
	if err != nil {
		t.Fatal(err)
	}
	options.Host, options.Port, options.StoreDir = "127.0.0.1", server.RANDOM_PORT, t.TempDir()
	options.NoSigs, options.NoLog = true, true
	running, err := server.NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	go running.Start() // ends with Shutdown, which is waited for
	t.Cleanup(func() { running.Shutdown(); running.WaitForShutdown() })
	if !running.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server is not ready")
	}
	return func(role string) Config {
		user := strings.ReplaceAll(role, "/", "-")
		return Config{URLs: []string{strings.Replace(running.ClientURL(), "nats://", "nats://"+user+":secret@", 1)}}
	}
}

// embedded runs the server that controllers bring. Each role has a credentials
// file.
func embedded(t *testing.T) guarded {
	t.Helper()
	dir := t.TempDir()
	issuer, err := credentials.OpenOrCreate(filepath.Join(dir, "issuer.nk"))
	if err != nil {
		t.Fatal(err)
	}
	running, err := embeddedserver.Start(embeddedserver.Config{
		Dir: filepath.Join(dir, "bus"), Listen: "127.0.0.1:0", Auth: authBy(t, issuer, ""),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(running.Close)
	return func(role string) Config {
		if role == RoleController {
			return Config{Server: running}
		}
		return Config{URLs: []string{running.ClientURL()}, Credentials: issued(t, issuer, role)}
	}
}

func authBy(t *testing.T, issuer *credentials.Issuer, local string) *embeddedserver.Auth {
	return &embeddedserver.Auth{
		Issuer: issuer, InProcess: RoleController, Local: local,
		Permissions: func(name string) (publish, denied, subscribe []string, err error) {
			may, err := PermissionsOf(name)
			return may.Publish, may.DenyPublish, may.Subscribe, err
		},
		Refused: func(from net.Addr, err error) { t.Logf("refused %s: %v", from, err) },
	}
}

func issued(t *testing.T, issuer *credentials.Issuer, role string) (file string) {
	t.Helper()
	content, err := issuer.Issue(role, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "role.creds")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// role is a connection of one user, and what the server refuses it.
type role struct {
	*testing.T
	conn    *nats.Conn
	js      jetstream.JetStream
	refused chan error
}

func as(t *testing.T, config Config) *role {
	t.Helper()
	r := &role{T: t, refused: make(chan error, 64)}
	bus := connectAs(t, config)
	bus.conn.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { r.refused <- err })
	r.conn = bus.conn
	var err error
	if r.js, err = jetstream.New(r.conn, jetstream.WithDefaultTimeout(200*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	return r
}

// publish reports whether the role may publish on a subject.
func (r *role) publish(subject string, data []byte) bool {
	r.Helper()
	if err := r.conn.Publish(subject, data); err != nil {
		r.Fatal(err)
	}
	return r.allowed()
}

// subscribe reports whether the role may subscribe to a subject.
func (r *role) subscribe(subject string) bool {
	r.Helper()
	sub, err := r.conn.SubscribeSync(subject)
	if err != nil {
		r.Fatal(err)
	}
	allowed := r.allowed()
	_ = sub.Unsubscribe()
	return allowed
}

// allowed reports whether the server refused nothing so far: it answers a flush
// after what came before it.
func (r *role) allowed() bool {
	r.Helper()
	if err := r.conn.Flush(); err != nil {
		r.Fatal(err)
	}
	select {
	case err := <-r.refused:
		if !errors.Is(err, nats.ErrPermissionViolation) {
			r.Fatal(err)
		}
		return false
	case <-time.After(30 * time.Millisecond):
		return true
	}
}

func connectAs(t *testing.T, config Config) *Bus {
	t.Helper()
	config.Name, config.Log = "role", slog.New(slog.DiscardHandler)
	bus, err := Connect(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bus.Close)
	return bus
}

func TestRoles_PermissionsLetEachDoItsPartAlone(t *testing.T) {
	for name, start := range map[string]func(*testing.T) guarded{"documented": documented, "embedded": embedded} {
		t.Run(name, func(t *testing.T) {
			eachDoesItsPartAlone(t, start(t))
		})
	}
}

func eachDoesItsPartAlone(t *testing.T, guarded guarded) {
	controller := connectAs(t, guarded(RoleController))
	createStreams(t, controller)
	controllerDoesItsPart(t, controller)

	auditor := connectAs(t, guarded(RoleAuditor))
	if err := auditor.Audit().Read(t.Context(), func(uint64, []byte, psg.AuditRecord) error { return nil }); err != nil {
		t.Errorf("an auditor cannot read the audit: %v", err)
	}
	if err := auditor.Ledger().Replay(t.Context(), 0, func(psg.Record) error { return nil }); err != nil {
		t.Errorf("an auditor cannot read the ledger: %v", err)
	}

	for _, user := range []string{RoleController, RoleAgent + "/n1", RoleAuditor, RoleDriver, RoleTenant} {
		r := as(t, guarded(user))
		for _, stream := range []string{ledgerStream, auditStream} {
			if err := r.js.DeleteStream(t.Context(), stream); err == nil {
				t.Errorf("%s deleted %s", user, stream)
			}
		}
		for !r.allowed() { // what was refused by then is not what follows
		}
		for subject, may := range map[string]bool{
			TelemetrySubject("n1"):            user == "agent/n1",
			TelemetrySubject("n2"):            false,
			ledgerSubject + ".aside":          false,
			OrderSubject("n1"):                user == "controller",
			ReportSubject("n1"):               user == "agent/n1",
			ReportSubject("n2"):               false,
			"$JS.API.STREAM.PURGE.PSG_AUDIT":  false,
			"$JS.API.STREAM.PURGE.PSG_LEDGER": false,
		} {
			if got := r.publish(subject, nil); got != may {
				t.Errorf("%s may publish on %s: %t, want %t", user, subject, got, may)
			}
		}
		for subject, may := range map[string]bool{
			OrderSubject("n1"): user == "agent/n1", OrderSubject("n2"): false, ledgerSubject: false,
			TelemetrySubject("n1"): user == "controller", ReportSubject("n1"): user == "controller",
		} {
			if got := r.subscribe(subject); got != may {
				t.Errorf("%s may subscribe to %s: %t, want %t", user, subject, got, may)
			}
		}
		if user != "controller" && (r.publish(ledgerSubject, []byte("forged")) || r.publish(auditSubject, []byte("forged"))) {
			t.Errorf("%s wrote to the ledger or the audit", user)
		}
	}
	if records := replay(t, controller, 0); len(records) != 1 {
		t.Errorf("the ledger holds %d records, want the controller's alone", len(records))
	}
	if err := as(t, guarded(RoleOperator)).js.DeleteStream(t.Context(), auditStream); err != nil {
		t.Errorf("the operator cannot delete a stream: %v", err)
	}
}

func controllerDoesItsPart(t *testing.T, controller *Bus) {
	t.Helper()
	if err := controller.Ledger().Append(t.Context(), record(1, 1)); err != nil {
		t.Errorf("a controller cannot append: %v", err)
	}
	if lease, err := controller.Lease(psg.Leader{Name: "a"}, time.Second).Take(t.Context()); err != nil || !lease.Mine {
		t.Errorf("a controller cannot take the lease: %+v, %v", lease, err)
	}
	for sequence := range uint64(5) {
		if err := controller.Images().Save(t.Context(), image(sequence)); err != nil {
			t.Errorf("a controller cannot keep images: %v", err)
		}
	}
	large := image(5)
	for i := range 20_000 { // of several megabytes, which NATS sends in portions
		large.Nodes = append(large.Nodes, psg.Node{ID: psg.NodeID(fmt.Sprint("large-", i)), Name: strings.Repeat("x", 400)})
	}
	if err := controller.Images().Save(t.Context(), large); err != nil {
		t.Errorf("a controller cannot keep a large image: %v", err)
	}
	if got := restored(t, controller); !slices.Equal(got, []uint64{5, 4, 3}) {
		t.Errorf("a controller restored images %v", got)
	}
	head, err := controller.Audit().append(t.Context(), AuditHead{}, psg.AuditRecord{Sequence: 1, Epoch: 1, Entries: []psg.AuditEntry{{Kind: psg.AuditLed}}})
	if err != nil || head.Position != 1 {
		t.Errorf("a controller cannot audit: %+v, %v", head, err)
	}
}
