package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/psgrid/psg/bus"
	"github.com/psgrid/psg/rpc"
	"github.com/psgrid/psg/shim"
)

func controllerCommand() *command {
	var config serveConfig
	var natsURLs, routes, ca, cert, key, tokens, tokenFile, namespaces, level string
	var logJSON bool
	var policyKey keyFlags
	return &command{
		name: "controller", args: "-data-dir DIR -bundle DIR [options]",
		synopsis: "Run a controller",
		help: `
Runs a controller until it is interrupted: answers gates over gRPC and people
over REST. Of several controllers on one NATS cluster (-nats, or their own
servers joined by -nats-cluster) one leads: it watches Nomad and decides. The others follow its ledger, answer readers, and one
takes over within seconds when it is gone. SIGHUP loads the policy bundle anew;
if it is faulty the old one stays in force.

Nomad's address and token come from NOMAD_ADDR, NOMAD_TOKEN and the other
variables that the nomad command reads. With -nomad-token-file the token is read
from a file for each request, so that it can be replaced at any time; psg status
says what Nomad refuses.`,
		define: func(flags *flag.FlagSet) {
			flags.StringVar(&config.name, "name", "", "`name` of this controller, recorded with its epochs; default is the host's")
			flags.StringVar(&config.dataDir, "data-dir", "", "`directory` of the embedded NATS server's streams")
			flags.StringVar(&natsURLs, "nats", "", "comma-separated `URLs` of an external NATS cluster, instead of -data-dir")
			flags.StringVar(&config.natsCredentials, "nats-creds", "", "NATS credentials `file` for -nats")
			flags.IntVar(&config.natsReplicas, "nats-replicas", 1, "`servers` of the cluster that keep the ledger")
			flags.StringVar(&config.cluster.Listen, "nats-cluster", "", "`address` where the embedded servers of other controllers reach this one's; empty for none")
			flags.StringVar(&routes, "nats-routes", "", "comma-separated `addresses` of the embedded servers of the other controllers")
			flags.StringVar(&config.natsListen, "nats-listen", "127.0.0.1:4222", "`address` where the embedded NATS server takes agents; empty for none")
			config.guard.define(flags)
			flags.StringVar(&config.bundle, "bundle", "", "policy bundle `directory`, or an archive that psg policy build made")
			config.variables.define(flags)
			policyKey.define(flags, "policy-key", "public key or certificate in PEM, or secret, that the bundle must be signed with")
			flags.StringVar(&config.grpc, "grpc", "127.0.0.1:4680", "`address` of the gRPC face")
			flags.StringVar(&config.http, "http", "127.0.0.1:4681", "`address` of the REST face, the metrics and health")
			flags.StringVar(&config.advertiseGRPC, "advertise-grpc", "", "`address` where clients reach -grpc, if it is another")
			flags.StringVar(&config.advertiseHTTP, "advertise-http", "", "`address` where clients reach -http, if it is another")
			flags.StringVar(&ca, "tls-ca", "", "PEM `file` of the authorities whose client certificates are required")
			flags.StringVar(&cert, "tls-cert", "", "PEM `file` of the server certificate; turns TLS on for gRPC")
			flags.StringVar(&key, "tls-key", "", "PEM `file` of its key")
			flags.StringVar(&tokens, "token-file", "", "`file` of tokens, one a line, of which clients of gRPC and REST must show one; a client certificate does for gRPC as well")
			flags.StringVar(&tokenFile, "nomad-token-file", "", "`file` with the Nomad token, instead of NOMAD_TOKEN")
			flags.StringVar(&namespaces, "namespaces", "", "comma-separated `namespaces` in which PSG places jobs; elsewhere it counts and touches nothing; empty for all")
			flags.DurationVar(&config.improve, "improve", 0, "`time` between two looks for running instances that are better placed elsewhere, which are moved as their groups allow; 0 for never")
			flags.StringVar(&level, "log-level", "info", "`level`: debug, info, warn or error")
			flags.BoolVar(&logJSON, "log-json", false, "log JSON")
		},
		run: func(c *command, args []string) error {
			if len(args) > 0 {
				return usagef("unexpected %q", args[0])
			}
			hostname, err := os.Hostname()
			if err != nil && config.name == "" {
				return fmt.Errorf("host's name, which is the default of -name: %w", err)
			}
			config.name = cmp.Or(config.name, hostname)
			if config.log, err = newLogger(c.stderr, level, logJSON); err != nil {
				return usageError{err}
			}
			if config.tls, err = serverTLS("-tls", ca, cert, key); err != nil {
				return err
			}
			if err := bus.CheckCredentials(config.natsCredentials); err != nil {
				return fmt.Errorf("-nats-creds: %w", err)
			}
			if config.policyKey, err = policyKey.read(); err != nil {
				return err
			}
			if tokens != "" {
				if config.tokens, err = rpc.ReadTokens(tokens); err != nil {
					return err
				}
			}
			config.natsURLs = split(natsURLs)
			config.cluster.Name, config.cluster.Routes = config.name, split(routes)
			if config.access, config.nomad, err = shim.NewAccess(tokenFile); err != nil {
				return err
			}
			config.namespaces = split(namespaces)
			if err := config.validate(); err != nil {
				return usageError{err}
			}
			reload := make(chan os.Signal, 1)
			signal.Notify(reload, syscall.SIGHUP)
			defer signal.Stop(reload)
			return serve(c.ctx, config, reload)
		},
	}
}

func newLogger(w io.Writer, level string, asJSON bool) (*slog.Logger, error) {
	var threshold slog.Level
	if err := threshold.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("-log-level %q is not debug, info, warn or error", level)
	}
	options := &slog.HandlerOptions{Level: threshold}
	if asJSON {
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return slog.New(slog.NewTextHandler(w, options)), nil
}

// serverTLS returns nil without a certificate. With an authority, clients must
// show a certificate of it. The flags that name the files begin as given.
func serverTLS(flags, ca, cert, key string) (*tls.Config, error) {
	if cert == "" && key == "" && ca == "" {
		return nil, nil
	}
	if cert == "" || key == "" {
		return nil, usagef("%s-cert and %s-key are needed together", flags, flags)
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("%s-cert %s with %s-key %s: %w", flags, cert, flags, key, err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13}
	if ca == "" {
		return config, nil
	}
	authorities, err := os.ReadFile(ca)
	if err != nil {
		return nil, fmt.Errorf("%s-ca: %w", flags, err)
	}
	config.ClientCAs = x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM(authorities) {
		return nil, fmt.Errorf("%s-ca: %s holds no PEM certificate", flags, ca)
	}
	config.ClientAuth = tls.RequireAndVerifyClientCert
	return config, nil
}

// ended hides the error of parts that were asked to end.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
