// Package bus carries what PSG's parts tell each other over NATS: the ledger's
// log, telemetry and orders. The server is the one in bus/server or an
// external cluster, and the code is the same for both.
//
// It moves and keeps bytes; it does not judge them. Records are checked by
// package ledger, encoded by package wire. Called by cmd/psg and cmd/psg-agent.
package bus

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/psgrid/psg"
)

// requestTimeout bounds one question to JetStream. While a cluster elects its
// leaders questions are lost, and the next is answered.
const requestTimeout = 1500 * time.Millisecond

// pingEvery is how often the server is asked whether it is there. The second
// ping without an answer ends the connection.
const pingEvery = 3 * time.Second

// Config says which bus to use: exactly one of Server and URLs is set.
type Config struct {
	Name string // of this connection, shown by NATS tools

	// Server is a server in this process, such as bus/server's.
	Server interface{ InProcessConn() (net.Conn, error) }

	// URLs are the servers of an external cluster.
	URLs []string
	// Credentials is the path of a NATS credentials file; optional.
	Credentials string
	// TLS towards them; nil means what their URLs say.
	TLS *tls.Config
	// Replicas is how many servers of the cluster keep the ledger: 1, 3 or 5;
	// 0 means 1. Read by CreateStreams.
	Replicas int

	Log *slog.Logger // required
}

// Validate reports the first field that makes no sense.
func (c Config) Validate() error {
	switch {
	case (c.Server == nil) == (len(c.URLs) == 0):
		return errors.New("bus: set either a server in this process or the URLs of a cluster")
	case c.Replicas < 0 || c.Replicas > 5:
		return fmt.Errorf("bus: %d replicas is outside 1..5", c.Replicas)
	case c.Log == nil:
		return errors.New("bus: no logger")
	}
	for i, one := range c.URLs {
		if err := checkURL(one); err != nil {
			return fmt.Errorf("bus: URL %d: %w", i+1, err)
		}
	}
	return nil
}

// Bus is a connection to NATS. It reconnects by itself.
type Bus struct {
	config Config
	conn   *nats.Conn
	js     jetstream.JetStream
	quiet  time.Duration // see quietFor
	made   sync.Map      // when each stream was made that end was asked for
}

// Connect connects. The caller closes the bus.
func Connect(config Config) (*Bus, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if err := CheckCredentials(config.Credentials); err != nil {
		return nil, err
	}
	bus := &Bus{config: config, quiet: quietFor}
	options := []nats.Option{
		nats.Name(config.Name),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(200 * time.Millisecond),
		nats.PingInterval(pingEvery), // one that hangs or is cut off is left for another
		nats.ErrorHandler(bus.report),
	}
	if config.Server != nil {
		options = append(options, nats.InProcessServer(config.Server))
	}
	if config.Credentials != "" {
		options = append(options, nats.UserCredentials(config.Credentials), nats.TokenHandler(config.token))
	}
	if config.TLS != nil {
		options = append(options, nats.Secure(config.TLS))
	}
	var err error
	if bus.conn, err = nats.Connect(strings.Join(config.URLs, ","), options...); err != nil {
		var of *url.Error // quotes what it could not parse, a password and all
		if errors.As(err, &of) {
			err = of.Err
		}
		return nil, fmt.Errorf("connect to bus: %w", err)
	}
	if bus.js, err = jetstream.New(bus.conn, jetstream.WithDefaultTimeout(requestTimeout)); err != nil {
		bus.Close()
		return nil, fmt.Errorf("open JetStream: %w", err)
	}
	return bus, nil
}

// token is what the credentials file says, without the key that proves it. A
// server without accounts of its own, as the embedded one, does not look at
// credentials where NATS clients show them, but at a token.
func (c Config) token() string {
	content, err := os.ReadFile(c.Credentials)
	if err != nil {
		return "" // nats.UserCredentials says why
	}
	token, err := nkeys.ParseDecoratedJWT(content)
	if err != nil {
		return ""
	}
	return token
}

// Close disconnects.
func (b *Bus) Close() { b.conn.Close() }

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
