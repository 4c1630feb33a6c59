package rpc

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/psgrid/psg"
)

// unread is a controller that has just started.
type unread struct{ cluster }

func (unread) Snapshot() *psg.Snapshot             { return &psg.Snapshot{} }
func (unread) Asks() []psg.AskStatus               { return nil }
func (unread) Position() (uint64, psg.Epoch, bool) { return 0, 0, false }

func TestREST_KnowsNothingBeforeItHasReadTheLedger(t *testing.T) {
	for path, want := range map[string]int{
		"/v1/nodes": 503, "/v1/node/aaaa": 503, "/v1/workloads": 503, "/v1/asks": 503, "/v1/ask/alloc-1": 503,
		"/v1/status": 200, "/metrics": 200,
	} {
		answer := httptest.NewRecorder()
		REST(unread{}).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		if answer.Code != want {
			t.Errorf("GET %s = %d %s, want %d", path, answer.Code, answer.Body, want)
		}
	}
}

func TestRESTClient_AsksTheNextWhereOneKnowsNothing(t *testing.T) {
	fresh, old := httptest.NewServer(REST(unread{})), httptest.NewServer(REST(cluster{}))
	defer fresh.Close()
	defer old.Close()
	for list, want := range map[string]int{fresh.URL + "," + old.URL: 3, old.URL + "," + fresh.URL: 3, fresh.URL: 0} {
		client, err := NewRESTClient(list)
		if err != nil {
			t.Fatal(err)
		}
		nodes, err := client.Nodes(t.Context())
		if len(nodes) != want || (want == 0) != errors.Is(err, psg.ErrUnavailable) {
			t.Errorf("%d nodes, %v; want %d", len(nodes), err, want)
		}
	}
}

func TestWriteError_SaysWhenToTryAgain(t *testing.T) {
	for err, want := range map[error]string{psg.ErrBusy: "1", psg.ErrInvalid: ""} {
		answer := httptest.NewRecorder()
		if WriteError(answer, err); answer.Header().Get("Retry-After") != want {
			t.Errorf("%v: Retry-After %q, want %q", err, answer.Header().Get("Retry-After"), want)
		}
	}
}
