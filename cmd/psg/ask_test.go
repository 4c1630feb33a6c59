package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/rpc"
)

const testToken = "a-token-of-more-than-twenty-characters"

// faces are the REST faces of a controller that does not lead and of one that
// does, which ask for a token; asked is what the second was asked.
func faces(t *testing.T, answers map[string]any) (at address, asked *[]string) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(testToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(tokenVariable, file)
	guard, err := rpc.ReadTokens(file)
	if err != nil {
		t.Fatal(err)
	}
	asked = new([]string)
	standby := httptest.NewServer(guard.REST(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		rpc.WriteError(w, psg.ErrNotLeader)
	})))
	leader := httptest.NewServer(guard.REST(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r.Method+" "+r.URL.Path)
		rpc.WriteJSON(w, http.StatusOK, answers[r.URL.Path])
	})))
	t.Cleanup(standby.Close)
	t.Cleanup(leader.Close)
	return address("http://127.0.0.1:1," + standby.URL + "/, " + leader.URL), asked
}

func TestAddress_AsksWhoeverLeadsAndShowsTheToken(t *testing.T) {
	at, asked := faces(t, map[string]any{
		"/v1/blocked":           []psg.Blockage{{Group: "g"}},
		"/v1/node/n1/reports":   []psg.Report{{Node: "n1"}},
		"/v1/node/n1/rebalance": rebalanced{psg.Rebalanced{Orders: []psg.Order{{Alloc: "a\x1b[2J"}}}, 3},
	})
	if found, err := blockages(t.Context(), at, "default", "web"); err != nil || len(found) != 1 {
		t.Errorf("blockages %+v, %v", found, err)
	}
	if reports, err := readReports(t.Context(), at, "n1"); err != nil || len(reports) != 1 {
		t.Errorf("reports %+v, %v", reports, err)
	}
	var shown bytes.Buffer
	m := mover{c: &command{stdout: &shown}, at: at, node: "n1", begun: map[psg.AllocID]bool{}}
	if err := m.ask(t.Context()); err != nil || m.last.On != 3 {
		t.Errorf("rebalance %+v, %v", m.last, err)
	}
	if strings.Contains(shown.String(), "\x1b") || !strings.HasPrefix(shown.String(), "a") {
		t.Errorf("shown as %q", &shown)
	}
	if want := []string{"GET /v1/blocked", "GET /v1/node/n1/reports", "POST /v1/node/n1/rebalance"}; !slices.Equal(*asked, want) {
		t.Errorf("asked %v", *asked)
	}
}

func TestJobRun_FollowsUntilEachInstanceHasAnAnswer(t *testing.T) {
	id, placed := "web", &psg.Placement{Node: "n1"}
	answered := psg.AskStatus{Ask: psg.Ask{ID: "a"}, State: psg.Granted, Placement: placed}
	undecided := psg.AskStatus{Ask: psg.Ask{ID: "b"}, State: psg.Gated}
	refused := psg.AskStatus{Ask: psg.Ask{ID: "c"}, State: psg.Queued, Refusal: &psg.Refusal{Summary: "full"}}
	over := psg.AskStatus{Ask: psg.Ask{ID: "d"}, State: psg.Released}
	for name, one := range map[string]struct {
		asks            []psg.AskStatus
		answered, waits bool
	}{
		"all have a place":  {[]psg.AskStatus{answered, over}, true, false},
		"one is undecided":  {[]psg.AskStatus{answered, undecided}, false, true},
		"one waits":         {[]psg.AskStatus{answered, refused}, true, true},
		"nobody has asked":  {[]psg.AskStatus{over}, true, false}, // PSG does not place it
		"none of them does": {[]psg.AskStatus{undecided, undecided}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_ = json.NewEncoder(w).Encode(one.asks)
			}))
			defer server.Close()
			rest, err := rpc.NewRESTClient(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			if _, answered, waits := new(jobRun).stand(t.Context(), rest, &api.Job{ID: &id}); answered != one.answered || waits != one.waits {
				t.Errorf("answered %v, waits %v", answered, waits)
			}
		})
	}
}

func TestJobOfJSON_RefusesAJobWithoutAnID(t *testing.T) {
	for _, text := range []string{`{}`, `{"Job":{}}`, `{"Job":{"ID":""}}`, `{"Job":{"Name":"x"}}`, `{"ID":null}`} {
		if job, err := jobOfJSON([]byte(text)); err == nil {
			t.Errorf("%s is %+v", text, job)
		}
	}
}

func TestSplit_LeavesSpacesOut(t *testing.T) {
	for text, want := range map[string][]string{"": nil, " ,": nil, "ml": {"ml"}, "ml, default,": {"ml", "default"}} {
		if got := split(text); !slices.Equal(got, want) {
			t.Errorf("%q is %q", text, got)
		}
	}
	if c := newPlanClient([]string{"http://a/", " http://b"}); !slices.Equal(c.addresses, []string{"http://a", "http://b"}) {
		t.Errorf("asks %q", c.addresses)
	}
}

func TestPlanClient_TakesNoGarbageForAVerdict(t *testing.T) {
	id := psg.WorkloadID{Namespace: "default", Job: "web", Group: "g"}
	for answer, ok := range map[string]bool{
		`[{"workload":{"namespace":"default","job":"web","group":"g"}}]`:     true,
		`[{"workload":{"namespace":"default","job":"web","group":"other"}}]`: false,
		`[]`: false, `null`: false, `{}`: false, `[{`: false, "<html>": false,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, answer) }))
		t.Cleanup(server.Close)
		_, err := newPlanClient([]string{server.URL}).Judge(t.Context(), []psg.Workload{{ID: id}})
		if (err == nil) != ok {
			t.Errorf("%s: %v, want it taken: %t", answer, err, ok)
		}
	}
}
