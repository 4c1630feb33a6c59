package shim

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

func TestWatcher_EndsWhatWentWhileNobodyWatched(t *testing.T) {
	n, client := newNomad(t)
	n.nodes["n1"] = plainNode(5)
	n.jobs["train"] = gatedJob(6)
	n.allocs["a1"] = gatedAlloc(7, "running", "dead", "running")
	ended := gatedAlloc(7, "complete")
	ended.ID, ended.JobID = "foreign", "unknown" // Nomad placed it by itself
	n.allocs["foreign"] = ended
	workload := func(job string) psg.WorkloadID { return psg.WorkloadID{Namespace: "ml", Job: job, Group: "g"} }
	sink := watch(t, client, WatchConfig{Before: Remembered{
		Nodes:     []psg.NodeID{"n0", "n1"},
		Workloads: []psg.WorkloadID{workload("purged"), workload("train")},
		Allocs:    []psg.AllocID{"a0", "a1", "foreign"},
	}})
	sink.want(t, "node n1 version 5 ready true", "node n0 gone", "workload ml/train/g version 6", "a1 running",
		"a0 released: ended while", "foreign released: ended while", "workload ml/purged/g gone")
	feed := n.opened(t)
	down := plainNode(101)
	feed <- events(t, 101, event{Topic: api.TopicNode, Payload: payload{Node: down}})
	sink.want(t, "node n1 version 101") // told once
}

func TestWatcher_LearnsItsRegionOnceNomadIsThere(t *testing.T) {
	n, client := newNomad(t)
	n.nodes["n1"] = plainNode(5)
	inner, tries := n.server.Config.Handler, 0
	n.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/agent/self" {
			if tries++; tries < 3 {
				http.Error(w, "down", http.StatusInternalServerError)
				return
			}
			n.set(func() { n.fail = false })
		}
		inner.ServeHTTP(w, r)
	})
	n.set(func() { n.fail = true })
	sink := watch(t, client, WatchConfig{})
	select {
	case deltas := <-sink:
		if node := deltas[0].(psg.NodeChanged).Node; node.Region != "eu" {
			t.Errorf("region = %q, want that of the agent", node.Region)
		}
	case <-time.After(patience):
		t.Fatal("no node came")
	}
}

func TestWatcher_EndsWhileNomadHangs(t *testing.T) {
	asked := make(chan struct{}, 1)
	hung := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case asked <- struct{}{}:
		default:
		}
		<-hung
	}))
	defer server.Close()
	defer close(hung)
	client, err := api.NewClient(&api.Config{Address: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- NewWatcher(client, make(seen), slog.New(slog.DiscardHandler), WatchConfig{}).Run(ctx) }()
	<-asked
	cancel()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("the watcher waits for a Nomad that does not answer")
	}
}

// A stream whose first word cannot be read is a failure like one that does not
// open: the next try waits longer.
func TestWatcher_WaitsLongerForAStreamOfGarbage(t *testing.T) {
	n, client := newNomad(t)
	w := NewWatcher(client, make(seen), slog.New(slog.DiscardHandler), WatchConfig{})
	go func() { (<-n.streams) <- `{"Events": "garbage"}` }()
	if followed, err := w.follow(t.Context()); followed || err == nil {
		t.Errorf("follow = %v, %v, want that it came to nothing", followed, err)
	}
	go func() {
		feed := <-n.streams
		feed <- "{}"
		feed <- "garbage"
	}()
	if followed, err := w.follow(t.Context()); !followed || err == nil {
		t.Errorf("follow = %v, %v, want that it came as far as events", followed, err)
	}
}

func TestWatcher_RepeatsAnEndWithTheNextList(t *testing.T) {
	n, client := newNomad(t)
	n.jobs["train"] = gatedJob(6)
	n.allocs["a1"] = gatedAlloc(7, "running", "dead", "running")
	sink := watch(t, client, WatchConfig{})
	sink.want(t, "workload ml/train/g version 6", "a1 running")
	feed := n.opened(t)
	over := gatedAlloc(102, "complete")
	n.set(func() { n.index, n.allocs["a1"] = 102, over })
	feed <- events(t, 102, event{Topic: api.TopicAllocation, Payload: payload{Allocation: over}})
	sink.want(t, "a1 released")
	close(feed) // have it listed
	sink.want(t, "a1 released")
	close(n.opened(t))
	n.set(func() { n.nodes["n1"] = plainNode(103) })
	sink.want(t, "node n1 version 103") // and not a third time
}
