package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg/rpc"
	"github.com/psgrid/psg/shim"
)

func shimProxyCommand() *command {
	var listen, controllers, region, namespaces, fail, cert, key, level string
	var logJSON bool
	return &command{
		name: "shim proxy", args: "[-listen ADDRESS] [-controllers URLS] [options]",
		synopsis: "Serve Nomad's API with PSG's say in registrations",
		help: `
Stands in front of a Nomad agent: point NOMAD_ADDR of people and pipelines here.
Jobs with a psg task are judged by policy, planned and registered where PSG wants
them; a job that policy rejects is refused with the reasons. Everything else
passes untouched, with the caller's own token.

Nomad's address and TLS come from NOMAD_ADDR and the other variables that the
nomad command reads; NOMAD_TOKEN is not used.`,
		define: func(flags *flag.FlagSet) {
			flags.StringVar(&listen, "listen", "127.0.0.1:4682", "`address` to serve Nomad's API on")
			flags.StringVar(&controllers, "controllers", cmp.Or(os.Getenv("PSG_ADDR"), "http://127.0.0.1:4681"),
				"comma-separated `URLs` of the controllers' REST faces; default is PSG_ADDR")
			flags.StringVar(&region, "region", envOr("NOMAD_REGION", ""), "`region` of that Nomad; jobs for another one pass; default is NOMAD_REGION, or the only region there is")
			flags.StringVar(&namespaces, "namespaces", "", "comma-separated `namespaces` in which PSG places jobs; jobs for others pass; empty for those that the controllers say")
			flags.StringVar(&fail, "fail", "open", "\"open\" registers jobs unplanned while no controller answers, their gates wait; \"closed\" refuses them")
			flags.StringVar(&cert, "tls-cert", "", "PEM `file` of the certificate to serve with; turns TLS on")
			flags.StringVar(&key, "tls-key", "", "PEM `file` of its key")
			flags.StringVar(&level, "log-level", "info", "`level`: debug, info, warn or error")
			flags.BoolVar(&logJSON, "log-json", false, "log JSON")
		},
		run: func(c *command, args []string) error {
			if len(args) > 0 {
				return usagef("unexpected %q", args[0])
			}
			if fail != "open" && fail != "closed" {
				return usagef("-fail must be open or closed, not %q", fail)
			}
			if _, err := rpc.NewRESTClient(controllers); err != nil {
				return usagef("-controllers: %w", err)
			}
			log, err := newLogger(c.stderr, level, logJSON)
			if err != nil {
				return usageError{err}
			}
			own, err := serverTLS("-tls", "", cert, key)
			if err != nil {
				return err
			}
			if _, err := rpc.ReadToken(os.Getenv(tokenVariable)); err != nil {
				return fmt.Errorf("%s: %w", tokenVariable, err)
			}
			config := shim.ProxyConfig{Region: region, FailClosed: fail == "closed", Namespaces: split(namespaces), Log: log}
			if config.Nomad, config.Transport, err = nomadTransport(api.DefaultConfig()); err != nil {
				return err
			}
			listener, err := net.Listen("tcp", listen)
			if err != nil {
				return err
			}
			log.Info("serving nomad's API", "address", listener.Addr(), "nomad", config.Nomad)
			return serveProxy(c.ctx, listener, own, shim.NewProxy(newPlanClient(strings.Split(controllers, ",")), config))
		},
	}
}

// nomadTransport is how Nomad is reached, as the nomad command would: at a URL, or
// at a socket, of which the URL is made up.
func nomadTransport(config *api.Config) (*url.URL, http.RoundTripper, error) {
	address, err := url.Parse(config.Address)
	socket := ""
	if err == nil && address.Scheme == "unix" && address.Path != "" {
		socket, address = address.Path, &url.URL{Scheme: "http", Host: "nomad"}
	}
	if err != nil || address.Host == "" {
		return nil, nil, fmt.Errorf("nomad address %q is no URL", config.Address)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}}
	if err := api.ConfigureTLS(client, config.TLSConfig); err != nil {
		return nil, nil, fmt.Errorf("nomad TLS (%s): %w", shim.TLSFiles(config.TLSConfig), err)
	}
	transport := client.Transport.(*http.Transport)
	transport.DisableCompression = true // what is compressed passes compressed
	transport.MaxIdleConnsPerHost = 256
	transport.IdleConnTimeout = time.Minute
	if socket != "" {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}
	}
	return address, transport, nil
}

func serveProxy(ctx context.Context, listener net.Listener, config *tls.Config, handler http.Handler) error {
	server := &http.Server{Handler: handler, TLSConfig: config, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() {
		if config != nil {
			served <- server.ServeTLS(listener, "", "")
			return
		}
		served <- server.Serve(listener)
	}()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	err := server.Shutdown(closing)
	if errors.Is(err, context.DeadlineExceeded) {
		err = server.Close() // streams that never end by themselves
	}
	<-served
	return err
}
