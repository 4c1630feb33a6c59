package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/agent"
	"github.com/psgrid/psg/bus"
	"github.com/psgrid/psg/rpc/node"
)

// defaultState is where the journals of agents are, one directory for each node:
// in memory, as control groups are.
const defaultState = "/run/psg-agent"

// reconnectEvery is how long to wait before another try to reach the bus.
const reconnectEvery = time.Second

// orderOptions say how orders reach the agent and what it does by itself.
type orderOptions struct {
	state, heal, grpc, token, ca, cert, key string
	undo                                    bool
}

func (o *orderOptions) define(flags *flag.FlagSet) {
	flags.StringVar(&o.state, "state-dir", "", "`directory` of the journal of what is held back (default \""+defaultState+"/NODE\")")
	flags.StringVar(&o.heal, "heal", string(agent.HealAct), "what to do about noisy neighbours within the leader's mandate: `act`, report or off")
	flags.StringVar(&o.grpc, "orders-grpc", "", "`address` of a gRPC face for orders, beside the bus: 127.0.0.1:4685; needs -orders-token, or -orders-tls-ca and the two beside it")
	flags.StringVar(&o.token, "orders-token", "", "`file` of the token that those who give orders over gRPC show")
	flags.StringVar(&o.ca, "orders-tls-ca", "", "PEM `file` of the authorities whose client certificates are required there")
	flags.StringVar(&o.cert, "orders-tls-cert", "", "PEM `file` of the server certificate there")
	flags.StringVar(&o.key, "orders-tls-key", "", "PEM `file` of its key")
	flags.BoolVar(&o.undo, "undo", false, "undo all that an agent that has ended holds back on this node, and exit")
}

// stateOf is the directory of a node's journal, whatever the node is called.
func stateOf(node psg.NodeID) string {
	name := url.PathEscape(string(node))
	if strings.Trim(name, ".") == "" { // such as "..", which is another directory
		name = strings.ReplaceAll(name, ".", "%2E")
	}
	return filepath.Join(defaultState, name)
}

// validate refuses options that would do nothing.
func (o *orderOptions) validate() error {
	if o.grpc != "" {
		return nil
	}
	if o.token+o.ca+o.cert+o.key != "" {
		return errors.New("-orders-token and -orders-tls-… are for the gRPC face: say where with -orders-grpc")
	}
	return nil
}

// orders is how this process takes orders.
type orders struct {
	carrier  *agent.Orders
	link     *orderLink
	listener net.Listener // nil: no gRPC face
	face     node.Config
	lock     *os.File
	log      *slog.Logger
}

// take opens the journal and the gRPC face. Without a directory that was asked
// for, a node where there can be no journal takes no orders, and says so.
func (o *orderOptions) take(config agent.OrdersConfig, transport bus.Config) (*orders, error) {
	config.Healing = agent.Healing(o.heal)
	config.Dir = cmp.Or(o.state, stateOf(config.Node))
	if err := config.Validate(); err != nil {
		return nil, err
	}
	t := &orders{link: &orderLink{config: transport}, log: config.Log}
	var err error
	if t.lock, err = lock(config.Dir); err != nil {
		if o.state == "" && o.grpc == "" && errors.Is(err, fs.ErrPermission) {
			config.Log.Warn("no orders are taken on this node", "error", err)
			return nil, nil
		}
		return nil, err
	}
	if t.carrier, err = agent.NewOrders(config, t.link); err != nil {
		return nil, errors.Join(err, t.lock.Close())
	}
	if err := o.listen(t); err != nil {
		return nil, errors.Join(err, t.lock.Close())
	}
	return t, nil
}

func (o *orderOptions) listen(t *orders) (err error) {
	if o.grpc == "" {
		return nil
	}
	if o.token != "" {
		if t.face.Token, err = node.ReadToken(o.token); err != nil {
			return err
		}
	}
	if t.face.TLS, err = o.tls(); err != nil {
		return err
	}
	if t.listener, err = net.Listen("tcp", o.grpc); err != nil {
		return fmt.Errorf("gRPC face for orders: %w", err)
	}
	if err := t.face.Validate(t.listener.Addr()); err != nil {
		return errors.Join(err, t.listener.Close())
	}
	return nil
}

// tls is nil without a certificate; with an authority, clients must show one of
// its certificates.
func (o *orderOptions) tls() (*tls.Config, error) {
	if o.cert == "" && o.key == "" && o.ca == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(o.cert, o.key)
	if err != nil {
		return nil, fmt.Errorf("-orders-tls-cert %q with -orders-tls-key %q: %w", o.cert, o.key, err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13}
	if o.ca == "" {
		return config, nil
	}
	authorities, err := os.ReadFile(o.ca)
	if err != nil {
		return nil, fmt.Errorf("-orders-tls-ca: %w", err)
	}
	config.ClientCAs, config.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !config.ClientCAs.AppendCertsFromPEM(authorities) {
		return nil, fmt.Errorf("-orders-tls-ca: %s holds no PEM certificate", o.ca)
	}
	return config, nil
}

// undoAll undoes what an agent that has ended holds back.
func (o *orderOptions) undoAll(config agent.OrdersConfig) error {
	t, err := o.take(config, bus.Config{})
	if err != nil {
		return err
	}
	if t == nil {
		return errors.New("there is no journal that this user may read")
	}
	return errors.Join(t.carrier.Undo("asked for by hand"), t.lock.Close())
}

// lock takes a journal's directory for this process alone, for as long as it
// runs.
func lock(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("directory of the journal: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the journal: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("another agent of this node runs: %s is locked: %w", dir, err), file.Close())
	}
	return file, nil
}

// run takes orders until ctx ends, and then undoes what is held back. It may be
// called on nil.
func (t *orders) run(ctx context.Context) error {
	if t == nil {
		return nil
	}
	defer t.lock.Close()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return t.carrier.Run(ctx) })
	group.Go(func() error { return t.link.watch(ctx, t.carrier) })
	if t.listener != nil {
		t.log.Info("orders are taken over gRPC", "address", t.listener.Addr())
		group.Go(func() error { return node.Serve(ctx, t.listener, t.carrier, t.face) })
	}
	err := group.Wait()
	t.link.close()
	return err
}

// takes is what the agent's loop shows the node to; nil when no orders are taken.
func (t *orders) takes() *agent.Orders {
	if t == nil {
		return nil
	}
	return t.carrier
}

// orderLink is a connection to the bus for orders and reports, apart from the
// telemetry's, so that neither waits for the other.
type orderLink struct {
	config bus.Config
	bus    atomic.Pointer[bus.Bus]
}

// Report refuses while the bus is not connected; the agent keeps its reports.
func (l *orderLink) Report(ctx context.Context, r psg.Report) error {
	connected := l.bus.Load()
	if connected == nil {
		return fmt.Errorf("the bus was not reached yet: %w", psg.ErrUnavailable)
	}
	return connected.PublishReport(ctx, r)
}

// watch hears orders until ctx ends, from when the bus is first reached.
func (l *orderLink) watch(ctx context.Context, carrier *agent.Orders) error {
	retry := time.NewTicker(reconnectEvery)
	defer retry.Stop()
	for {
		connected, err := bus.Connect(l.config)
		if err == nil {
			l.bus.Store(connected)
			return connected.WatchOrders(ctx, carrier.Node(), func(order psg.Order) { heed(carrier, order) })
		}
		select {
		case <-ctx.Done():
			return nil
		case <-retry.C:
		}
	}
}

// heed carries out what is for the agent: the gates' orders come on the same
// subject.
func heed(carrier *agent.Orders, order psg.Order) {
	switch order.Kind {
	case psg.Grant, psg.Wait, psg.Steer, psg.Stop:
	default:
		carrier.CarryOut(order)
	}
}

func (l *orderLink) close() {
	if connected := l.bus.Load(); connected != nil {
		connected.Close()
	}
}
