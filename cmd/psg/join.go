package main

import (
	"context"
	"slices"
	"time"

	"github.com/psgrid/psg/bus"
	"github.com/psgrid/psg/bus/server"
)

// openBus connects to the cluster, or to a server that it starts.
func (c serveConfig) openBus(ctx context.Context) (transport *bus.Bus, natsURL string, closeBus func(), err error) {
	var closers []func()
	closeBus = func() {
		for _, closer := range slices.Backward(closers) {
			closer()
		}
	}
	config := bus.Config{
		Name: c.name, URLs: c.natsURLs, Credentials: c.natsCredentials, Replicas: c.natsReplicas, Log: c.log,
	}
	if c.dataDir != "" {
		guarded, err := c.server()
		if err != nil {
			return nil, "", nil, err
		}
		embedded, err := server.Start(guarded)
		if err != nil {
			return nil, "", nil, err
		}
		closers = append(closers, embedded.Close)
		config.Server, natsURL = embedded, embedded.ClientURL()
	} else if config.TLS, err = bus.ClientTLS(c.guard.tls.ca, c.guard.tls.cert, c.guard.tls.key); err != nil {
		return nil, "", nil, err
	}
	if transport, err = c.join(ctx, config); err != nil {
		closeBus()
		return nil, "", nil, err
	}
	closers = append(closers, transport.Close)
	return transport, natsURL, closeBus, nil
}

// join connects and makes sure of the streams. A cluster that cannot do that
// yet is waited for.
func (c serveConfig) join(ctx context.Context, config bus.Config) (*bus.Bus, error) {
	for {
		transport, err := bus.Connect(config)
		if err == nil {
			if err = transport.CreateStreams(ctx); err == nil {
				return transport, nil
			}
			transport.Close()
		}
		if c.natsReplicas <= 1 && c.dataDir != "" {
			return nil, err // a server of our own has no reason to fail
		}
		c.log.Warn("bus not joined", "error", err)
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(time.Second):
		}
	}
}
