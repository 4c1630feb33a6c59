package shim

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

// hiding answers as Nomad does for jobs whose IDs end like what is asked of a job:
// at their own paths it has none, or something else.
func hiding(t *testing.T, n *nomad, jobs ...*api.Job) *api.Client {
	whole := n.server.Config.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, ok := strings.CutPrefix(r.URL.Path, "/v1/job/")
		id, versions := strings.CutSuffix(path, "/versions")
		for _, job := range jobs {
			if versions && *job.ID == id {
				_ = json.NewEncoder(w).Encode(map[string]any{"Versions": []*api.Job{job}})
				return
			}
		}
		switch {
		case !ok:
			whole.ServeHTTP(w, r)
		case versions:
			http.Error(w, "job versions not found", http.StatusNotFound)
		case strings.HasSuffix(path, "/plan"), strings.HasSuffix(path, "/tomorrow"):
			http.Error(w, "Invalid method", http.StatusMethodNotAllowed)
		default:
			_, _ = w.Write([]byte(`{"JobID":"a","Namespace":"ml","Summary":{}}`))
		}
	}))
	t.Cleanup(server.Close)
	client, err := api.NewClient(&api.Config{Address: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func named(id string, index uint64) *api.Job {
	job := gatedJob(index)
	job.ID = &id
	return job
}

// TestWatcher_FollowsOnBesideAJobThatNomadDoesNotShow has one such job keep nobody
// else's from being seen.
func TestWatcher_FollowsOnBesideAJobThatNomadDoesNotShow(t *testing.T) {
	n, _ := newNomad(t)
	n.nodes["n1"] = plainNode(5)
	plan := named("a/plan", 6)
	for _, job := range []*api.Job{plan, named("b/tomorrow", 7), named("c/unknown", 8)} {
		n.jobs[*job.ID] = job
	}
	client := hiding(t, n, plan)
	sink := watch(t, client, WatchConfig{})
	sink.want(t, "node n1 version 5 ready true", "workload ml/a%2Fplan/g version 6")
	feed := n.opened(t)
	down := plainNode(101)
	down.Status = "down"
	feed <- events(t, 101, event{Topic: api.TopicNode, Payload: payload{Node: down}})
	sink.want(t, "node n1 version 101 ready false")
}

func TestRequestJob_ReadsNoOther(t *testing.T) {
	n, _ := newNomad(t)
	client := hiding(t, n, named("a/summary", 6))
	jobs := NewJobs(client)
	if w, err := jobs.Workload(t.Context(), psg.WorkloadID{Namespace: "ml", Job: "a/summary", Group: "g"}); err != nil || w.Version != 6 {
		t.Errorf("%+v, %v; want the job that is called like a summary", w, err)
	}
	for _, id := range []string{"b/summary", "b/plan", "b/tomorrow", "b/later"} {
		if _, err := jobs.Workload(t.Context(), psg.WorkloadID{Namespace: "ml", Job: id, Group: "g"}); !errors.Is(err, psg.ErrUnknown) {
			t.Errorf("%s: %v, want it unknown", id, err)
		}
	}
	if d, err := NewEnactor(client).fetch(t.Context(), psg.JobID{Namespace: "ml", Job: "a/summary"}); err != nil || text(d.job.ID) != "a/summary" {
		t.Errorf("to be steered: %v, %v", d, err)
	}
}

func TestProxy_JudgesAJobThatIsCalledLikeAnAction(t *testing.T) {
	b := newBehind(t, &planner{reject: "everything"}, true)
	b.stored = `{"JobID":"web","Summary":{}}`
	b.versions = `{"Versions":[` + strings.Replace(bare(managedJob("")), `"ID":"web"`, `"ID":"web/summary"`, 1) + `]}`
	if code, answer := b.put(t, "/v1/job/web/summary/scale", `{"Count":1,"Target":{"Group":"g"}}`); code != http.StatusBadRequest || len(b.bodies) > 0 {
		t.Errorf("%d %s, want it judged", code, answer)
	}
}
