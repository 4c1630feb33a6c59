package nomad_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg/shim"
)

// addressed says in each of Nomad's ways where a job is to go.
func (g *grid) addressed(t *testing.T, through *api.Client, address string) {
	if _, err := g.client.Namespaces().Register(&api.Namespace{Name: "ml"}, nil); err != nil {
		t.Fatal(err)
	}
	bad := gated("there", 1, map[string]any{"labels": map[string]string{"forbidden": "by test"}})
	for name, where := range map[string]api.WriteOptions{
		"namespace": {Namespace: "ml"}, "region": {Region: "global"}, "both": {Namespace: "ml", Region: "global"},
	} {
		if _, _, err := through.Jobs().Register(bad, &where); err == nil || !strings.Contains(err.Error(), "forbidden: by test") {
			t.Errorf("%s: %v, want policy's reason", name, err)
		}
	}
	if _, _, err := through.Jobs().Register(bad, &api.WriteOptions{Region: "elsewhere"}); err == nil || !strings.Contains(err.Error(), "No path to region") {
		t.Errorf("a job for another region: %v, want Nomad's answer", err)
	}
	good, err := json.Marshal(map[string]any{"Job": gated("there", 2, classB())})
	if err != nil {
		t.Fatal(err)
	}
	body, write := io.Pipe() // of no known length: sent in chunks
	go func() {
		for len(good) > 0 {
			n := min(100, len(good))
			if _, err := write.Write(good[:n]); err != nil {
				return
			}
			good = good[n:]
		}
		write.Close()
	}()
	request, err := http.NewRequest(http.MethodPut, address+"/v1/jobs?namespace=ml", body)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("registration in chunks: %s", response.Status)
	}
	in := &api.QueryOptions{Namespace: "ml"}
	g.until(20*time.Second, "it runs in the namespace", func() bool {
		allocs, _, err := g.client.Jobs().Allocations("there", false, in)
		return err == nil && len(allocs) == 2 && !slices.ContainsFunc(allocs, func(a *api.AllocationListStub) bool {
			main := a.TaskStates["main"]
			return main == nil || main.State != "running" || a.NodeID == g.nodes[0]
		})
	})
	job, _, err := g.client.Jobs().Info("there", in)
	if err != nil || *job.Version != 0 || !shim.Steered(job) {
		t.Errorf("version %d, steered %t (%v), want it steered in its first version", *job.Version, shim.Steered(job), err)
	}
	g.until(20*time.Second, "its deployment is done", func() bool {
		last, _, err := g.client.Jobs().LatestDeployment("there", in)
		return err == nil && last != nil && last.Status == api.DeploymentStatusSuccessful
	})
	if out, err := g.nomad(address, "job", "scale", "-namespace", "ml", "-detach", "there", "g", "1"); err != nil {
		t.Errorf("scale in a namespace: %v\n%s", err, out)
	}
	page, err := http.Get(address + "/ui/")
	if err != nil {
		t.Fatal(err)
	}
	page.Body.Close()
	if page.StatusCode != http.StatusOK || !strings.HasPrefix(page.Header.Get("Content-Type"), "text/html") {
		t.Errorf("Nomad's page: %s, %v", page.Status, page.Header)
	}
}

func (g *grid) passes(t *testing.T, through *api.Client, address string) {
	plain := sleeper("plain", 1, 50, 32)
	if _, _, err := through.Jobs().Register(plain, nil); err != nil {
		t.Fatal(err)
	}
	g.until(10*time.Second, "plain runs", func() bool { return g.total(g.runningOn("plain")) == 1 })
	if shim.Steered(g.job("plain")) {
		t.Error("a job without a psg task was steered")
	}
	out, err := g.nomad(address, "alloc", "exec", "-task", "main", g.ids("plain")[0], "/bin/echo", "through a websocket")
	if err != nil || !strings.Contains(out, "through a websocket") {
		t.Errorf("alloc exec: %v\n%s", err, out)
	}
	events, err := http.Get(address + "/v1/event/stream?topic=Job")
	if err != nil {
		t.Fatal(err)
	}
	defer events.Body.Close()
	g.purge("plain")
	first := make([]byte, 2)
	if _, err := io.ReadFull(events.Body, first); err != nil {
		t.Errorf("event stream: %v", err)
	}
	request, err := http.NewRequest(http.MethodGet, address+"/v1/jobs", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept-Encoding", "gzip")
	request.Header.Set("X-Nomad-Token", "00000000-0000-0000-0000-000000000000")
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.Header.Get("Content-Encoding") != "gzip" || response.Header.Get("X-Nomad-Index") == "" {
		t.Errorf("headers %v, want gzip and Nomad's index", response.Header)
	}
	jobs, meta, err := through.Jobs().List(nil)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	_, _, err = through.Jobs().List(&api.QueryOptions{WaitIndex: meta.LastIndex, WaitTime: 300 * time.Millisecond})
	if took := time.Since(start); err != nil || took < 250*time.Millisecond {
		t.Errorf("a blocking query on %d jobs came back after %s: %v", len(jobs), took, err)
	}
}
