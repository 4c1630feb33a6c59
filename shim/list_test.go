package shim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/hashicorp/nomad/api"
)

// TestWatcher_ListsAllocationsPageByPage has an allocation of the first page end
// before the second is asked for: that is told by the stream alone.
func TestWatcher_ListsAllocationsPageByPage(t *testing.T) {
	n, _ := newNomad(t)
	n.jobs["train"] = gatedJob(6)
	second := gatedAlloc(8, "running", "dead", "running")
	second.ID = "a2"
	pages := map[string][]*allocation{"": {gatedAlloc(7, "running", "dead", "running")}, "8.a2": {second}}
	whole := n.server.Config.Handler
	paged := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/allocations" {
			whole.ServeHTTP(w, r)
			return
		}
		token := r.URL.Query().Get("next_token")
		w.Header().Set("X-Nomad-LastContact", "0") // without it the client reads no token
		if w.Header().Set("X-Nomad-Index", "100"); token != "" {
			w.Header().Set("X-Nomad-Index", "105")
		} else if r.URL.Query().Get("per_page") == fmt.Sprint(allocsPage) {
			w.Header().Set("X-Nomad-NextToken", "8.a2")
		}
		_ = json.NewEncoder(w).Encode(pages[token])
	}))
	t.Cleanup(paged.Close)
	client, err := api.NewClient(&api.Config{Address: paged.URL})
	if err != nil {
		t.Fatal(err)
	}
	sink := watch(t, client, WatchConfig{})
	sink.want(t, "workload ml/train/g version 6", "a1 running", "a2 running")
	feed := n.opened(t)
	feed <- events(t, 103, event{Topic: api.TopicAllocation, Payload: payload{Allocation: gatedAlloc(103, "lost")}})
	sink.want(t, "a1 lost")
}
