package shim

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/psgrid/psg"
)

// Planner judges workloads that somebody wants to register, and plans where
// their instances go.
//
// Namespaces lists those in which work is placed, none for all, soon. Judge asks policy
// only. Plan also reserves room under a request's ID, for a
// while, unless policy rejects any of them; Abandon gives it back when the
// registration has failed. psg.ErrUnavailable means that nobody could be asked.
type Planner interface {
	Namespaces(ctx context.Context) ([]string, error)
	Judge(ctx context.Context, workloads []psg.Workload) ([]psg.Verdict, error)
	Plan(ctx context.Context, request psg.RequestID, workloads []psg.Workload) ([]psg.Verdict, error)
	Abandon(ctx context.Context, request psg.RequestID, workloads []psg.WorkloadID) error
}

// ProxyConfig is what a Proxy is made of.
type ProxyConfig struct {
	Nomad     *url.URL          // where Nomad's HTTP API is
	Transport http.RoundTripper // how it is reached
	// Region is that of that Nomad: jobs for another one pass. Where it is empty
	// Nomad is asked, which knows if there is no other.
	Region string
	// FailClosed refuses registrations of managed jobs while no controller
	// answers. Otherwise they are registered unplanned, with a warning: their
	// gates wait for a decision anyway.
	FailClosed bool
	// Namespaces are those in which PSG places jobs; those that the controllers
	// say when empty. Jobs for others pass.
	Namespaces []string
	Log        *slog.Logger
}

// Proxy stands in front of Nomad's HTTP API. Registrations, plans and
// validations of jobs that PSG manages are judged, equipped and steered;
// everything else passes untouched, in both directions, as it comes. It keeps
// no state, but for the namespaces that the controllers named last, and has no
// rights of its own: each request to Nomad carries the caller's token.
type Proxy struct {
	config  ProxyConfig
	planner Planner
	scope   *scope
	pass    *httputil.ReverseProxy
	bodies  atomic.Int64 // bytes of those that are held: see counted
}

// NewProxy returns a Proxy, which is an http.Handler.
func NewProxy(planner Planner, config ProxyConfig) *Proxy {
	p := &Proxy{config: config, planner: planner, scope: newScope(config.Namespaces, planner.Namespaces)}
	p.pass = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(config.Nomad)
			r.Out.URL.RawQuery = r.In.URL.RawQuery // also what Go cannot parse
			r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
			r.SetXForwarded()
		},
		Transport:     config.Transport,
		FlushInterval: -1, // event streams and logs come as they are written
		ErrorLog:      slog.NewLogLogger(config.Log.Handler(), slog.LevelWarn),
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() == nil {
				config.Log.Warn("nomad not reached", "path", r.URL.Path, "error", err)
			}
			http.Error(w, fmt.Sprintf("psg: nomad not reached: %v", err), http.StatusBadGateway)
		},
	}
	return p
}

// action is what one intercepted request asks for.
type action struct {
	handle func(*Proxy, http.ResponseWriter, *http.Request, string)
	suffix string
}

// judgedActions are the routes below /v1/job/ID that PSG has a say in.
var judgedActions = [...]action{
	{(*Proxy).plan, "/plan"},
	{(*Proxy).scale, "/scale"},
	{(*Proxy).revert, "/revert"},
	{(*Proxy).dispatch, "/dispatch"},
	{(*Proxy).force, "/periodic/force"},
}

// ServeHTTP answers one request.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPut && r.Method != http.MethodPost {
		p.pass.ServeHTTP(w, r)
		return
	}
	switch path := r.URL.Path; path {
	case "/v1/jobs":
		p.register(w, r, "")
		return
	case "/v1/validate/job":
		p.validate(w, r)
		return
	default:
		id, ok := strings.CutPrefix(path, "/v1/job/") // without an ID Nomad takes that of the job
		if !ok {
			p.pass.ServeHTTP(w, r)
			return
		}
		p.job(w, r, id)
	}
}

// job answers a write below /v1/job/.
func (p *Proxy) job(w http.ResponseWriter, r *http.Request, path string) {
	for _, action := range judgedActions {
		if id, ok := strings.CutSuffix(path, action.suffix); ok {
			action.handle(p, w, r, id)
			return
		}
	}
	if endsInAction(path) {
		p.pass.ServeHTTP(w, r)
		return
	}
	p.register(w, r, path)
}

// forward sends a request on with another body.
func (p *Proxy) forward(w http.ResponseWriter, r *http.Request, body []byte) {
	out := r.Clone(r.Context())
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	out.TransferEncoding = nil
	out.Header.Del("Content-Length")
	p.pass.ServeHTTP(w, out)
}
