package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/psgrid/psg/agent"
)

// metricsAddress is where Prometheus finds the metrics unless told otherwise.
const metricsAddress = "127.0.0.1:4686"

// listenMetrics returns nil where no metrics are to be served. That another
// agent of this machine has the usual address is no reason not to run.
func (o *options) listenMetrics(log *slog.Logger) (net.Listener, error) {
	if o.metrics == "" {
		return nil, nil
	}
	listener, err := net.Listen("tcp", o.metrics)
	switch {
	case err == nil:
		return listener, nil
	case o.metrics == metricsAddress:
		log.Warn("metrics are not served", "error", err)
		return nil, nil
	}
	return nil, fmt.Errorf("metrics: %w", err)
}

// serveMetrics answers GET /metrics until ctx ends.
func serveMetrics(ctx context.Context, listener net.Listener, a *agent.Agent) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		text, err := a.Exposition(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write(text) // the client has gone: nobody to tell
	})
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second,
		MaxHeaderBytes: 8 << 10, BaseContext: func(net.Listener) context.Context { return ctx },
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve metrics: %w", err)
	case <-ctx.Done():
	}
	server.Close()
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve metrics: %w", err)
	}
	return nil
}
