package rpc

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/psgrid/psg"
)

// Reader is what a controller knows, as committed.
type Reader interface {
	Snapshot() *psg.Snapshot
	Asks() []psg.AskStatus
	Position() (sequence uint64, epoch psg.Epoch, leading bool)
	Leader() psg.Leader // zero while nobody is known to lead
}

// Position is where a controller stands, as GET /v1/status shows it.
type Position struct {
	Leading  bool       `json:"leading"`
	Epoch    psg.Epoch  `json:"epoch"`
	Sequence uint64     `json:"sequence"`
	Leader   psg.Leader `json:"leader,omitzero"`    // who holds the lease
	Troubles []string   `json:"troubles,omitempty"` // what fails on the orchestrator's side now, as a Troubled reader tells
}

// Troubled is a Reader that also tells what the controller cannot do at present
// because its orchestrator refuses it or is not there.
type Troubled interface{ Troubles() []string }

// REST serves the JSON face:
//
//	GET /v1/status            Position
//	GET /v1/health            200 while it leads or follows who does, else 503
//	GET /v1/leader            200 while it leads, else 503; for load balancers
//	GET /v1/nodes             []psg.Node
//	GET /v1/node/{id}         psg.Node
//	GET /v1/workloads         []psg.Workload
//	GET /v1/asks              []psg.AskStatus; ?namespace=&job= for one job's
//	GET /v1/ask/{id}          psg.AskStatus; an allocation ID is its ask's
//	GET /metrics              Prometheus
//
// An error is {"error": "…"} with the status that fits, 503 while the controller
// has yet to read the ledger: it knows nothing, which is not the same as that
// there is nothing. The metrics are those of
// the controller and of more.
func REST(reader Reader, more ...prometheus.Collector) http.Handler {
	mux := http.NewServeMux()
	get := func(pattern string, answer func(*http.Request) (any, error)) {
		mux.HandleFunc("GET "+pattern, func(w http.ResponseWriter, r *http.Request) {
			value, err := answer(r)
			if err != nil {
				WriteError(w, err)
				return
			}
			WriteJSON(w, http.StatusOK, value)
		})
	}
	known := func(pattern string, answer func(*http.Request) (any, error)) {
		get(pattern, func(r *http.Request) (any, error) {
			if at := position(reader); at.Sequence == 0 {
				return nil, fmt.Errorf("this controller has yet to read the ledger: %w", psg.ErrUnavailable)
			}
			return answer(r)
		})
	}
	get("/v1/status", func(*http.Request) (any, error) { return position(reader), nil })
	get("/v1/health", func(*http.Request) (any, error) {
		if at := position(reader); !at.Leading && at.Leader.Name == "" {
			return nil, fmt.Errorf("this controller neither leads nor knows who does: %w", psg.ErrUnavailable)
		}
		return map[string]string{"health": "ok"}, nil
	})
	get("/v1/leader", func(*http.Request) (any, error) {
		at := position(reader)
		if !at.Leading {
			return nil, fmt.Errorf("this controller does not lead: %w", psg.ErrNotLeader)
		}
		return at.Leader, nil
	})
	known("/v1/nodes", func(*http.Request) (any, error) { return list(reader.Snapshot().Nodes), nil })
	known("/v1/node/{id}", func(r *http.Request) (any, error) {
		return one("node", reader.Snapshot().Nodes, r.PathValue("id"), func(n psg.Node) string { return string(n.ID) })
	})
	known("/v1/workloads", func(*http.Request) (any, error) { return list(reader.Snapshot().Workloads), nil })
	known("/v1/asks", func(r *http.Request) (any, error) {
		return list(ofJob(reader.Asks(), r.URL.Query())), nil
	})
	known("/v1/ask/{id}", func(r *http.Request) (any, error) {
		return one("allocation", reader.Asks(), r.PathValue("id"), func(s psg.AskStatus) string { return string(s.Ask.ID) })
	})
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(append(more, collector{reader})...)
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	return mux
}

// readWithin is how long a client may take to read an answer, from its first
// byte on: while it does not, all of the answer is kept for it.
const readWithin = time.Minute

// ServeREST answers on listener until ctx ends.
func ServeREST(ctx context.Context, listener net.Listener, handler http.Handler) error {
	return serveREST(ctx, listener, handler, readWithin)
}

func serveREST(ctx context.Context, listener net.Listener, handler http.Handler, within time.Duration) error {
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			handler.ServeHTTP(&answer{ResponseWriter: w, within: within}, r)
		}),
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve REST: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		server.Close()
	}
	<-served
	return nil
}

// answer gives a client a time to read what is written. It begins when the
// handler has waited for whatever it waits for.
type answer struct {
	http.ResponseWriter
	within time.Duration
	begun  bool
}

// WriteHeader begins the answer.
func (a *answer) WriteHeader(code int) {
	a.begin()
	a.ResponseWriter.WriteHeader(code)
}

// Write begins the answer if need be, and goes on with it.
func (a *answer) Write(data []byte) (int, error) {
	a.begin()
	return a.ResponseWriter.Write(data)
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answer) begin() {
	if !a.begun {
		a.begun = true
		_ = http.NewResponseController(a.ResponseWriter).SetWriteDeadline(time.Now().Add(a.within)) // what a server gives has one
	}
}

func position(reader Reader) Position {
	sequence, epoch, leading := reader.Position()
	at := Position{Leading: leading, Epoch: epoch, Sequence: sequence, Leader: reader.Leader()}
	if t, ok := reader.(Troubled); ok {
		at.Troubles = t.Troubles()
	}
	return at
}

// ofJob keeps the asks of the job that a query names, if it names one.
func ofJob(asks []psg.AskStatus, query url.Values) []psg.AskStatus {
	if !query.Has("job") {
		return asks
	}
	namespace, job := cmp.Or(query.Get("namespace"), "default"), query.Get("job")
	return slices.DeleteFunc(asks, func(s psg.AskStatus) bool {
		return s.Ask.Workload.Namespace != namespace || s.Ask.Workload.Job != job
	})
}

// list makes an empty JSON array of no items, never null.
func list[T any](items []T) []T {
	if items == nil {
		return []T{}
	}
	return items
}

// one finds an item by its ID, or by a prefix of at least four characters that
// only one has, as Nomad's short IDs are.
func one[T any](noun string, items []T, id string, of func(T) string) (T, error) {
	var found []T
	for _, item := range items {
		switch full := of(item); {
		case full == id:
			return item, nil
		case len(id) >= 4 && len(full) > len(id) && full[:len(id)] == id:
			found = append(found, item)
		}
	}
	var none T
	switch len(found) {
	case 0:
		return none, fmt.Errorf("%w %s %q: give its ID, or at least four characters that only its ID begins with", psg.ErrUnknown, noun, id)
	case 1:
		return found[0], nil
	default:
		return none, fmt.Errorf("%w: %q is the beginning of %d %s IDs", psg.ErrInvalid, id, len(found), noun)
	}
}

// WriteError answers {"error": "…"} with the status that fits the error, and says
// when to try again if that helps.
func WriteError(w http.ResponseWriter, err error) {
	if errors.Is(err, psg.ErrBusy) {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(retryAfter.Seconds()))))
	}
	WriteJSON(w, toHTTP(err), map[string]string{"error": err.Error()})
}

// WriteJSON answers with a value, or with why JSON has no form of it.
func WriteJSON(w http.ResponseWriter, code int, value any) {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		code = http.StatusInternalServerError
		body.Reset()
		fmt.Fprintf(&body, "{\"error\": %q}\n", err) // of the encoder's own words, and types of ours
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(body.Bytes()) // the client has gone: nobody to tell
}
