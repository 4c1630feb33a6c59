package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg/shim"
)

// nomadFlags name a Nomad and what of it a command is about, as those of the
// nomad command do: each begins with its variable.
type nomadFlags struct{ address, region, namespace, token string }

func (n *nomadFlags) define(flags *flag.FlagSet) {
	flags.StringVar(&n.address, "nomad-address", "", "`URL` of Nomad; default is NOMAD_ADDR, or http://127.0.0.1:4646")
	flags.StringVar(&n.region, "region", envOr("NOMAD_REGION", ""), "`region`; default is NOMAD_REGION")
	flags.StringVar(&n.namespace, "namespace", envOr("NOMAD_NAMESPACE", "default"), "the job's `namespace`; default is NOMAD_NAMESPACE")
	flags.StringVar(&n.token, "token", "", "ACL `token`; default is NOMAD_TOKEN")
}

// config is how Nomad is reached: what the flags leave open comes from NOMAD_ADDR,
// NOMAD_TOKEN, NOMAD_CACERT and Nomad's other variables.
func (n *nomadFlags) config() *api.Config {
	config := api.DefaultConfig()
	config.Namespace, config.Region = n.namespace, n.region
	if n.address != "" {
		config.Address = n.address
	}
	if n.token != "" {
		config.SecretID = n.token
	}
	return config
}

// client reads from Nomad.
func (n *nomadFlags) client() (*api.Client, error) {
	client, err := api.NewClient(n.config())
	if err != nil {
		return nil, fmt.Errorf("nomad client: %w", err)
	}
	return client, nil
}

// throughProxy is a client whose writes go through a proxy of its own, as if it
// were pointed at psg shim proxy: they are judged, planned and steered, with the
// caller's token.
func (n *nomadFlags) throughProxy(at address) (*api.Client, error) {
	config := n.config()
	target, transport, err := nomadTransport(config)
	if err != nil {
		return nil, err
	}
	proxy := shim.NewProxy(newPlanClient(strings.Split(string(at), ",")), shim.ProxyConfig{
		Nomad: target, Transport: transport, Region: n.region, FailClosed: true, Log: slog.New(slog.DiscardHandler),
	})
	config.Address, config.HttpClient = target.String(), &http.Client{Transport: inProcess{proxy, transport}}
	client, err := api.NewClient(config)
	if err != nil {
		return nil, fmt.Errorf("nomad client: %w", err)
	}
	return client, nil
}

// inProcess has writes answered by a handler, and reads by Nomad.
type inProcess struct {
	handler http.Handler
	direct  http.RoundTripper
}

func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPut && r.Method != http.MethodPost {
		return p.direct.RoundTrip(r)
	}
	if r.Body == nil {
		r = r.Clone(r.Context())
		r.Body = http.NoBody
	}
	answer := &recorded{header: http.Header{}, code: http.StatusOK}
	p.handler.ServeHTTP(answer, r)
	return &http.Response{
		StatusCode: answer.code, Status: fmt.Sprintf("%d %s", answer.code, http.StatusText(answer.code)),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: answer.header,
		Body: io.NopCloser(&answer.body), ContentLength: int64(answer.body.Len()), Request: r,
	}, nil
}

// recorded is an answer that is not on any wire.
type recorded struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (a *recorded) Header() http.Header            { return a.header }
func (a *recorded) Write(data []byte) (int, error) { return a.body.Write(data) }
func (a *recorded) WriteHeader(code int)           { a.code = code }

// told is what Nomad, or PSG in its place, says is wrong, without the frame that
// the client puts around it.
func told(err error) error {
	var answer api.UnexpectedResponseError
	if errors.As(err, &answer) && answer.HasBody() {
		return errors.New(strings.TrimSpace(answer.Body()))
	}
	return err
}
