package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

// nomad is as much of Nomad's HTTP API as a Watcher uses.
type nomad struct {
	server  *httptest.Server
	streams chan chan string // one for each event stream that is opened; closing it ends that stream

	mu     sync.Mutex
	index  uint64
	nodes  map[string]*api.Node
	jobs   map[string]*api.Job
	allocs map[string]*allocation
	fail   bool // answer every list with an error
	spaces []*api.Namespace
	made   chan string // namespaces, as they are made
}

func newNomad(t *testing.T) (*nomad, *api.Client) {
	n := &nomad{
		streams: make(chan chan string, 4),
		index:   100,
		nodes:   map[string]*api.Node{},
		jobs:    map[string]*api.Job{},
		allocs:  map[string]*allocation{},
		spaces:  []*api.Namespace{{Name: "default"}},
		made:    make(chan string),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/agent/self", func(w http.ResponseWriter, _ *http.Request) {
		n.answer(w, map[string]any{"config": map[string]any{"Region": "eu"}}, true)
	})
	mux.HandleFunc("/v1/nodes", n.list(func() any { return values(n.nodes) }))
	mux.HandleFunc("/v1/jobs", n.list(func() any { return values(n.jobs) }))
	mux.HandleFunc("/v1/allocations", n.list(func() any { return values(n.allocs) }))
	mux.HandleFunc("/v1/namespaces", n.namespaces)
	mux.HandleFunc("/v1/node/{id}", func(w http.ResponseWriter, r *http.Request) { one(n, w, r, n.nodes) })
	mux.HandleFunc("/v1/job/{id}", func(w http.ResponseWriter, r *http.Request) { one(n, w, r, n.jobs) })
	mux.HandleFunc("/v1/job/{id}/allocations", n.list(func() any { return values(n.allocs) }))
	mux.HandleFunc("/v1/allocation/{id}", func(w http.ResponseWriter, r *http.Request) {
		job := gatedJob(3)
		job.ID = new("purged")
		n.answer(w, map[string]any{"Job": job}, r.PathValue("id") == "orphan")
	})
	mux.HandleFunc("/v1/event/stream", n.stream)
	n.server = httptest.NewServer(mux)
	t.Cleanup(n.server.Close)
	client, err := api.NewClient(&api.Config{Address: n.server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return n, client
}

func values[V any](m map[string]V) []V {
	out := []V{}
	for _, v := range m {
		out = append(out, v)
	}
	return out
}

func one[V any](n *nomad, w http.ResponseWriter, r *http.Request, m map[string]V) {
	n.mu.Lock()
	defer n.mu.Unlock()
	v, ok := m[r.PathValue("id")]
	n.answer(w, v, ok)
}

func (n *nomad) list(get func() any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.fail {
			http.Error(w, "no leader", http.StatusInternalServerError)
			return
		}
		w.Header().Set("X-Nomad-Index", fmt.Sprint(n.index))
		n.answer(w, get(), true)
	}
}

// namespaces waits, when asked from an index on, until one is made.
func (n *nomad) namespaces(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("index") != "" {
		select {
		case name := <-n.made:
			n.set(func() { n.index++; n.spaces = append(n.spaces, &api.Namespace{Name: name}) })
		case <-r.Context().Done():
			return
		}
	}
	n.list(func() any { return n.spaces })(w, r)
}

func (n *nomad) answer(w http.ResponseWriter, v any, ok bool) {
	if !ok {
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	_ = json.NewEncoder(w).Encode(v)
}

func (n *nomad) stream(w http.ResponseWriter, r *http.Request) {
	feed := make(chan string)
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	select {
	case n.streams <- feed:
	case <-r.Context().Done():
		return
	}
	for {
		select {
		case line, open := <-feed:
			if !open {
				return
			}
			_, _ = fmt.Fprintln(w, line)
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

func (n *nomad) set(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
}

// seen is a Sink that passes deltas to the test.
type seen chan []psg.Delta

func (s seen) Deltas(ctx context.Context, deltas []psg.Delta) error {
	select {
	case s <- deltas:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

const patience = 10 * time.Second

// want waits until deltas that begin with the given words have come, in order.
func (s seen) want(t *testing.T, words ...string) {
	t.Helper()
	timeout := time.After(patience)
	for len(words) > 0 {
		select {
		case deltas := <-s:
			for _, line := range lines(deltas) {
				if len(words) == 0 || !strings.HasPrefix(line, words[0]) {
					t.Fatalf("got %q, want %q", line, words)
				}
				words = words[1:]
			}
		case <-timeout:
			t.Fatalf("%q did not come", words)
		}
	}
}

func (n *nomad) opened(t *testing.T) chan string {
	t.Helper()
	select {
	case feed := <-n.streams:
		return feed
	case <-time.After(patience):
		t.Fatal("no event stream was opened")
		return nil
	}
}

// watch runs a Watcher until the test ends, and checks that Run then does too.
func watch(t *testing.T, client *api.Client, config WatchConfig) seen {
	t.Helper()
	sink := make(seen)
	config.RetryMin = time.Millisecond
	w := NewWatcher(client, sink, slog.New(slog.DiscardHandler), config)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run ended with %v", err)
		}
	})
	return sink
}

func events(t *testing.T, index uint64, list ...event) string {
	t.Helper()
	for i := range list {
		list[i].Index = index
	}
	line, err := json.Marshal(map[string]any{"Index": index, "Events": list})
	if err != nil {
		t.Fatal(err)
	}
	return string(line)
}

func plainNode(index uint64) *api.Node {
	return &api.Node{ID: "n1", Status: "ready", SchedulingEligibility: "eligible", ModifyIndex: index}
}

func TestWatcher_ListsThenFollows(t *testing.T) {
	n, client := newNomad(t)
	n.nodes["n1"] = plainNode(5)
	n.jobs["train"] = gatedJob(6)
	n.allocs["a1"] = gatedAlloc(7, "running", "dead", "running")
	sink := watch(t, client, WatchConfig{})
	sink.want(t, "node n1 version 5 ready true", "workload ml/train/g version 6", "a1 running")
	feed := n.opened(t)
	feed <- "{}"
	feed <- events(t, 90, event{Topic: api.TopicNode, Type: nodeDeregistration, Payload: payload{Node: plainNode(5)}}) // within the list
	down := plainNode(101)
	down.Status = "down"
	feed <- events(t, 101, event{Topic: api.TopicNode, Payload: payload{Node: down}})
	sink.want(t, "node n1 version 101 ready false")
	feed <- events(t, 102,
		event{Topic: api.TopicAllocation, Payload: payload{Allocation: gatedAlloc(102, "lost")}},
		event{Topic: api.TopicJob, Payload: payload{Job: gatedJob(6), Deleted: true}},
		event{Topic: api.TopicNode, Type: nodeDeregistration, Payload: payload{Node: down}})
	sink.want(t, "a1 lost", "workload ml/train/g gone", "node n1 gone")
}

func TestWatcher_PurgingAJobEndsTheAllocationsThatNomadForgets(t *testing.T) {
	n, client := newNomad(t)
	n.jobs["train"] = gatedJob(6)
	n.allocs["a1"] = gatedAlloc(7, "running", "dead", "running")
	sink := watch(t, client, WatchConfig{})
	sink.want(t, "workload ml/train/g version 6", "a1 running")
	feed := n.opened(t)
	n.set(func() { clear(n.allocs) })
	feed <- events(t, 102, event{Topic: api.TopicJob, Payload: payload{Job: gatedJob(6), Deleted: true}})
	sink.want(t, "a1 released: Nomad no longer knows", "workload ml/train/g gone")
}

func TestWatcher_ListsAgainAfterAGap(t *testing.T) {
	n, client := newNomad(t)
	n.nodes["n1"] = plainNode(5)
	n.jobs["train"] = gatedJob(6)
	n.allocs["a1"] = gatedAlloc(7, "pending")
	sink := watch(t, client, WatchConfig{})
	sink.want(t, "node n1", "workload ml/train/g version 6")
	feed := n.opened(t)
	feed <- events(t, 101, event{Topic: api.TopicNode, Payload: payload{Node: plainNode(101)}})
	sink.want(t, "node n1 version 101") // both lists are done
	n.set(func() {                      // while nobody hears of it, all goes, and something comes
		n.index = 200
		n.fail = true
		clear(n.nodes)
		n.nodes["n2"] = &api.Node{ID: "n2", ModifyIndex: 150}
		clear(n.jobs)
		clear(n.allocs)
	})
	close(feed)
	n.set(func() { n.fail = false })
	sink.want(t, "node n2 version 150", "node n1 gone", "workload ml/train/g gone", "a1 released: Nomad no longer knows")
	close(n.opened(t))
	feed = n.opened(t)
	feed <- events(t, 201, event{Topic: api.TopicJob, Payload: payload{Job: gatedJob(201)}})
	sink.want(t, "workload ml/train/g version 201")
}

func TestWatcher_ListsAgainWhenTheStreamIsSilentOrOld(t *testing.T) {
	for name, config := range map[string]WatchConfig{
		"silent": {Silence: 5 * time.Millisecond},
		"old":    {Resync: 5 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			n, client := newNomad(t)
			watch(t, client, config)
			n.opened(t)
			n.opened(t)
		})
	}
}

func TestWatcher_FetchesTheJobOfAnAllocationItDoesNotKnow(t *testing.T) {
	n, client := newNomad(t)
	sink := watch(t, client, WatchConfig{})
	feed := n.opened(t)
	n.set(func() { n.jobs["train"] = gatedJob(101) })
	feed <- events(t, 102, event{Topic: api.TopicAllocation, Payload: payload{Allocation: gatedAlloc(102, "running", "dead", "running")}})
	sink.want(t, "workload ml/train/g version 101", "a1 running")

	purged := gatedAlloc(103, "running", "dead", "running")
	purged.ID, purged.JobID = "orphan", "purged"
	feed <- events(t, 103, event{Topic: api.TopicAllocation, Payload: payload{Allocation: purged}})
	forgotten := gatedAlloc(104, "running")
	forgotten.ID, forgotten.JobID = "stray", "forgotten"
	feed <- events(t, 104, event{Topic: api.TopicAllocation, Payload: payload{Allocation: forgotten}})
	sink.want(t, "orphan running", "workload ml/forgotten/g version 0", "stray placed on n1")
}

type brokenSink struct{ error }

func (b brokenSink) Deltas(context.Context, []psg.Delta) error { return b.error }

func TestWatcher_EndsWhenItsSinkFails(t *testing.T) {
	n, client := newNomad(t)
	n.nodes["n1"] = plainNode(5)
	full := errors.New("disk full")
	w := NewWatcher(client, brokenSink{full}, slog.New(slog.DiscardHandler), WatchConfig{})
	if err := w.Run(t.Context()); !errors.Is(err, full) {
		t.Errorf("Run ended with %v", err)
	}
}

func TestJobs_Workload(t *testing.T) {
	n, client := newNomad(t)
	n.jobs["train"] = gatedJob(6)
	stopped := gatedJob(7)
	stopped.ID, stopped.Stop = new("stopped"), new(true)
	n.jobs["stopped"] = stopped
	bad := gatedJob(8)
	bad.ID, bad.TaskGroups[0].Count = new("bad"), new(-1)
	n.jobs["bad"] = bad
	jobs := NewJobs(client)
	w, err := jobs.Workload(t.Context(), psg.WorkloadID{Namespace: "ml", Job: "train", Group: "g"})
	if err != nil || w.Version != 6 || w.ID.Group != "g" {
		t.Errorf("%+v, %v", w, err)
	}
	for job, want := range map[string]error{"train": psg.ErrUnknown, "none": psg.ErrUnknown, "stopped": psg.ErrUnknown, "bad": psg.ErrInvalid} {
		if _, err := jobs.Workload(t.Context(), psg.WorkloadID{Namespace: "ml", Job: job, Group: "other"}); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", job, err, want)
		}
	}
	n.server.Close()
	if _, err := jobs.Workload(t.Context(), psg.WorkloadID{Namespace: "ml", Job: "train", Group: "g"}); !errors.Is(err, psg.ErrUnavailable) {
		t.Errorf("without nomad: %v", err)
	}
}

// Nomad sends the events of the namespaces that there were when the stream was opened:
// of what came and went in another the gates alone have told.
func TestWatcher_FollowsANamespaceThatIsMadeLater(t *testing.T) {
	n, client := newNomad(t)
	n.jobs["train"] = gatedJob(6)
	n.allocs["a1"] = gatedAlloc(7, "running", "dead", "running")
	counts := make(chan Remembered, 2)
	counts <- Remembered{Allocs: []psg.AllocID{"a1"}}
	counts <- Remembered{Allocs: []psg.AllocID{"a1", "purged"}, Workloads: []psg.WorkloadID{{Namespace: "ml", Job: "over", Group: "g"}}}
	sink := watch(t, client, WatchConfig{Counted: func() Remembered { return <-counts }})
	sink.want(t, "workload ml/train/g version 6", "a1 running")
	feed := n.opened(t)
	feed <- events(t, 101, event{Topic: api.TopicJob, Payload: payload{Job: gatedJob(101)}})
	sink.want(t, "workload ml/train/g version 101") // both lists are done
	n.set(func() { n.index, n.jobs["train"] = 200, gatedJob(150) })
	n.made <- "ml"
	sink.want(t, "workload ml/train/g version 150", "purged released", "workload ml/over/g gone")
	feed = n.opened(t)
	feed <- events(t, 300, event{Topic: api.TopicJob, Payload: payload{Job: gatedJob(300)}})
	sink.want(t, "workload ml/train/g version 300")
}
