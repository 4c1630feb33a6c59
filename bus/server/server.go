// Package server is the NATS server inside a controller, for those who run no
// NATS cluster of their own. It is apart from package bus so that agents,
// which only connect, do not carry it.
package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// MaxPayload bounds one message, and so one ledger record, in bytes. An
// external cluster must be set to at least this.
const MaxPayload = 32 << 20

// readyTimeout is how long the server may take to start.
const readyTimeout = 10 * time.Second

// tlsTimeout is how long a client may take to agree on TLS: the default of 2 s is
// short for a busy machine.
const tlsTimeout = 10 * time.Second

// Config says where the server keeps its streams and whether it listens.
type Config struct {
	Dir     string  // created if need be, and locked for this process alone
	Listen  string  // client address, "127.0.0.1:4222"; empty means this process only
	Cluster Cluster // zero means that the server is alone

	Auth *Auth       // nil: whoever reaches Listen may do everything
	TLS  *tls.Config // of Listen; nil means none
}

// Cluster joins the servers of several controllers to one. Without Shared its
// members trust whoever reaches Listen.
type Cluster struct {
	Name   string   // of this server, unlike any other's; the same after a restart
	Listen string   // where the other servers reach it
	Routes []string // of the other servers, or of all: "127.0.0.1:6222"
	Shared bool     // all of them have the same Auth.Issuer, and prove it to each other
	// TLS between the servers, each with a certificate that the others check; nil
	// means none.
	TLS *tls.Config
}

// Server is a running NATS server with JetStream.
type Server struct {
	nats      *server.Server
	auth      *Auth
	locked    *os.File
	listening bool
}

// Start runs a server. It syncs every append to disk before it acknowledges
// it: what the ledger calls durable must be. The caller closes it.
func Start(config Config) (*Server, error) {
	options := &server.Options{
		ServerName: "psg",
		JetStream:  true,
		StoreDir:   config.Dir,
		SyncAlways: true,
		MaxPayload: MaxPayload,
		MaxPending: 4 * MaxPayload,
		NoSigs:     true,
		NoLog:      true,
		DontListen: config.Listen == "",
	}
	if err := listen(options, config.Listen); err != nil {
		return nil, err
	}
	if err := join(options, config.Cluster); err != nil {
		return nil, err
	}
	if config.Cluster.Listen != "" && config.Listen == "" {
		return nil, errors.New("bus cluster: this server takes no clients: it needs an address for them too")
	}
	if config.TLS != nil {
		options.TLSConfig, options.TLSTimeout = config.TLS, tlsTimeout.Seconds()
	}
	if config.Auth != nil {
		options.CustomClientAuthentication, options.AlwaysEnableNonce = &gatekeeper{*config.Auth}, true
	}
	if config.Auth != nil && config.Cluster.Shared {
		prove(options, *config.Auth)
	}
	locked, err := lock(config.Dir)
	if err != nil {
		return nil, err
	}
	started := &Server{auth: config.Auth, locked: locked, listening: config.Listen != ""}
	if started.nats, err = server.NewServer(options); err != nil {
		started.Close()
		return nil, fmt.Errorf("embedded bus in %s: %w", config.Dir, err)
	}
	go started.nats.Start() // ends with Close, which waits for it
	if !started.nats.ReadyForConnections(readyTimeout) {
		started.Close()
		return nil, fmt.Errorf("embedded bus in %s is not ready after %s: is the address %q taken?", config.Dir, readyTimeout, config.Listen)
	}
	return started, nil
}

// InProcessConn connects without a socket; it makes a Server what bus.Config
// wants.
func (s *Server) InProcessConn() (net.Conn, error) { return s.nats.InProcessConn() }

// ClientURL is where other processes reach the server; empty if it does not
// listen.
func (s *Server) ClientURL() string {
	if !s.listening {
		return ""
	}
	return s.nats.ClientURL()
}

// Close stops the server and unlocks its directory. What it acknowledged is on
// disk.
func (s *Server) Close() {
	if s.nats != nil {
		s.nats.Shutdown()
		s.nats.WaitForShutdown()
	}
	s.locked.Close()
}

func listen(options *server.Options, address string) error {
	if address == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("bus listen address: %w", err)
	}
	number, err := strconv.Atoi(port)
	if err != nil || number < 0 || number > 65535 {
		return fmt.Errorf("bus listen address %q: port %q is not a number in 0..65535", address, port)
	}
	if number == 0 {
		number = server.RANDOM_PORT
	}
	options.Host, options.Port = host, number
	return nil
}

// join sets where the other servers of the cluster are.
func join(options *server.Options, cluster Cluster) error {
	if cluster.Listen == "" {
		return nil
	}
	if cluster.Name == "" {
		return errors.New("bus cluster: this server has no name")
	}
	var at server.Options
	if err := listen(&at, cluster.Listen); err != nil {
		return fmt.Errorf("bus cluster: %w", err)
	}
	options.ServerName = cluster.Name
	options.Cluster = server.ClusterOpts{Name: "psg", Host: at.Host, Port: at.Port}
	if cluster.TLS != nil {
		options.Cluster.TLSConfig, options.Cluster.TLSTimeout = cluster.TLS, tlsTimeout.Seconds()
	}
	for _, route := range cluster.Routes {
		if _, _, err := net.SplitHostPort(route); err != nil {
			return fmt.Errorf("bus cluster: route: %w", err)
		}
		options.Routes = append(options.Routes, &url.URL{Scheme: "nats", Host: route})
	}
	return nil
}

// prove has the servers of a cluster show each other a password.
func prove(options *server.Options, auth Auth) {
	password := routePassword(auth.Issuer)
	options.CustomRouterAuthentication = &routes{password, auth.Refused}
	for _, route := range options.Routes {
		route.User = url.UserPassword("psg", password)
	}
}

// lock takes a directory for this process alone: two servers on the same
// streams would corrupt them, and NATS itself does not notice.
func lock(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create bus directory: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock bus directory: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		file.Close()
		return nil, fmt.Errorf("bus directory %s is in use by another process: %w", dir, err)
	}
	return file, nil
}
