package main

import (
	"cmp"
	"crypto/tls"
	"flag"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"time"

	"github.com/psgrid/psg/bus"
	"github.com/psgrid/psg/bus/credentials"
	"github.com/psgrid/psg/bus/server"
	"github.com/psgrid/psg/internal/flood"
)

// refusals logs clients that were refused, now and then: whoever reaches the port
// could fill the disk.
type refusals struct {
	log *slog.Logger

	mu    sync.Mutex
	flood flood.Limit
}

func (r *refusals) note(from net.Addr, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if left, ok := r.flood.Take(time.Now()); ok {
		r.log.Warn("NATS client refused", "from", from, "error", err, "left_out", left)
	}
}

// natsTLS are the files of TLS with NATS, from either end.
type natsTLS struct{ ca, cert, key string }

func (n *natsTLS) define(flags *flag.FlagSet) {
	flags.StringVar(&n.ca, "nats-tls-ca", "", "PEM `file` of the authorities of certificates of NATS servers and their clients")
	flags.StringVar(&n.cert, "nats-tls-cert", "", "PEM `file` of a certificate to show to NATS; a server's turns TLS on")
	flags.StringVar(&n.key, "nats-tls-key", "", "PEM `file` of its key")
}

// natsGuard says whom the embedded NATS server lets in.
type natsGuard struct {
	tls    natsTLS
	issuer string // file; default is in the data directory
	ask    bool   // for credentials on loopback too
}

func (g *natsGuard) define(flags *flag.FlagSet) {
	g.tls.define(flags)
	flags.StringVar(&g.issuer, "nats-issuer", "", "`file` of the key that signs credentials for the embedded NATS server, the same for all of -nats-routes; default is issuer.nk in -data-dir, which is made if need be")
	flags.BoolVar(&g.ask, "nats-auth", false, "take clients of the embedded NATS server without credentials not even from this machine")
}

// server is the configuration of the embedded server.
func (c serveConfig) server() (server.Config, error) {
	issuer, err := credentials.OpenOrCreate(cmp.Or(c.guard.issuer, filepath.Join(c.dataDir, "issuer.nk")))
	if err != nil {
		return server.Config{}, err
	}
	config := server.Config{
		Dir: c.dataDir, Listen: c.natsListen, Cluster: c.cluster,
		Auth: &server.Auth{
			Issuer: issuer, InProcess: bus.RoleController, Local: bus.RoleLocal,
			Permissions: func(name string) (publish, denied, subscribe []string, err error) {
				may, err := bus.PermissionsOf(name)
				return may.Publish, may.DenyPublish, may.Subscribe, err
			},
			Refused: (&refusals{log: c.log}).note,
		},
	}
	if c.guard.ask {
		config.Auth.Local = ""
	}
	config.Cluster.Shared = c.guard.issuer != ""
	if config.TLS, err = serverTLS("-nats-tls", c.guard.tls.ca, c.guard.tls.cert, c.guard.tls.key); err != nil {
		return server.Config{}, err
	}
	if config.TLS != nil && config.TLS.ClientAuth == tls.RequireAndVerifyClientCert {
		config.Cluster.TLS = config.TLS.Clone()
		config.Cluster.TLS.RootCAs = config.TLS.ClientCAs
	}
	return config, nil
}
