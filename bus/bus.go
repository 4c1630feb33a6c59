// Package bus carries what PSG's parts tell each other over NATS: the ledger's
// log, telemetry and orders. The server is embedded by default or an external
// cluster by configuration, and the code is the same for both.
//
// It moves and keeps bytes; it does not judge them. Records are checked by
// package ledger, encoded by package wire. Called by cmd/psg and cmd/psg-agent.
package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/psgrid/psg"
)

// maxPayload bounds one message, and so one ledger record, in bytes.
const maxPayload = 32 << 20

// readyTimeout is how long an embedded server may take to start.
const readyTimeout = 10 * time.Second

// Config says which bus to use. Exactly one of Dir and URLs is set.
type Config struct {
	Name string // of this connection, shown by NATS tools

	// Dir is where an embedded server keeps its streams; it is created.
	Dir string
	// Listen is the embedded server's client address, "127.0.0.1:4222". Empty
	// means none: only this process reaches it.
	Listen string

	// URLs are the servers of an external cluster.
	URLs []string
	// Credentials is the path of a NATS credentials file; optional.
	Credentials string
	// Replicas is how many servers of an external cluster keep each stream: 1,
	// 3 or 5; 0 means 1.
	Replicas int

	Log *slog.Logger // required
}

// Validate reports the first field that makes no sense.
func (c Config) Validate() error {
	switch {
	case (c.Dir == "") == (len(c.URLs) == 0):
		return errors.New("bus: set either a directory for the embedded server or the URLs of a cluster")
	case c.Listen != "" && c.Dir == "":
		return errors.New("bus: listen address given without an embedded server")
	case c.Replicas < 0 || c.Replicas > 5:
		return fmt.Errorf("bus: %d replicas is outside 1..5", c.Replicas)
	case c.Log == nil:
		return errors.New("bus: no logger")
	}
	return nil
}

// Bus is a connection to NATS, with the server inside it when embedded.
type Bus struct {
	config  Config
	server  *server.Server // nil when external, as is locked
	locked  *os.File       // the embedded server's directory
	conn    *nats.Conn
	js      jetstream.JetStream
	samples atomic.Uint64 // published, numbers them
}

// Connect starts the embedded server if there is to be one and connects. The
// caller closes the bus.
func Connect(ctx context.Context, config Config) (*Bus, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	bus := &Bus{config: config}
	options := []nats.Option{
		nats.Name(config.Name),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(200 * time.Millisecond),
		nats.ErrorHandler(bus.report),
	}
	if config.Dir != "" {
		if err := bus.embed(); err != nil {
			bus.Close()
			return nil, err
		}
		options = append(options, nats.InProcessServer(bus.server))
	} else if config.Credentials != "" {
		options = append(options, nats.UserCredentials(config.Credentials))
	}
	if err := bus.dial(ctx, options); err != nil {
		bus.Close()
		return nil, err
	}
	return bus, nil
}

func (b *Bus) embed() error {
	var err error
	if b.locked, err = lock(b.config.Dir); err != nil {
		return err
	}
	b.server, err = startServer(b.config)
	return err
}

func (b *Bus) dial(ctx context.Context, options []nats.Option) error {
	var err error
	if b.conn, err = nats.Connect(joinURLs(b.config.URLs), options...); err != nil {
		return fmt.Errorf("connect to bus: %w", err)
	}
	if b.js, err = jetstream.New(b.conn); err != nil {
		return fmt.Errorf("open JetStream: %w", err)
	}
	return b.createStreams(ctx)
}

// Close disconnects and stops the embedded server. What was acknowledged is on
// disk.
func (b *Bus) Close() {
	if b.conn != nil {
		b.conn.Close()
	}
	if b.server != nil {
		b.server.Shutdown()
		b.server.WaitForShutdown()
	}
	if b.locked != nil {
		b.locked.Close() // which unlocks it
	}
}

// ClientURL is where other processes reach an embedded server; empty if it
// does not listen.
func (b *Bus) ClientURL() string {
	if b.server == nil || b.config.Listen == "" {
		return ""
	}
	return b.server.ClientURL()
}

// Healthy reports why the bus cannot be used now, or nil.
func (b *Bus) Healthy() error {
	if status := b.conn.Status(); status != nats.CONNECTED {
		return fmt.Errorf("bus is %s: %w", status, psg.ErrUnavailable)
	}
	return nil
}

// report logs what NATS tells asynchronously, such as a slow consumer.
func (b *Bus) report(_ *nats.Conn, sub *nats.Subscription, err error) {
	subject := ""
	if sub != nil {
		subject = sub.Subject
	}
	b.config.Log.Warn("bus reports an error", "subject", subject, "error", err)
}
