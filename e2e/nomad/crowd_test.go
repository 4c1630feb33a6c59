package nomad_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	e2e "github.com/psgrid/psg/e2e/cluster"
)

// crowd answers as a Nomad of many nodes and allocations would, in the shapes
// that a real one was recorded with. Nothing changes in it.
type crowd struct {
	nodes, jobs, allocs int
	node, alloc         map[string]any
}

func newCrowd(t *testing.T, nodes, jobs, allocs int) *crowd {
	t.Helper()
	c := &crowd{nodes: nodes, jobs: jobs, allocs: allocs}
	recorded := filepath.Join(programs.Root, "shim", "testdata", "nomad")
	var list []map[string]any
	for file, into := range map[string]any{"node.json": &c.node, "allocations.json": &list} {
		data, err := os.ReadFile(filepath.Join(recorded, file))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, into); err != nil {
			t.Fatal(err)
		}
	}
	c.alloc = list[0]
	shared := c.alloc["AllocatedResources"].(map[string]any)["Shared"].(map[string]any)
	shared["Networks"], shared["Ports"] = nil, nil // a static port would be taken twice
	return c
}

func nodeID(i int) string { return fmt.Sprintf("%08x-0000-4000-8000-000000000000", i) }
func jobID(i int) string  { return fmt.Sprint("job", i) }

func (c *crowd) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Nomad-Index", "1000")
	w.Header().Set("X-Nomad-LastContact", "0") // without it the client reads no token
	answer := json.NewEncoder(w)
	switch path := r.URL.Path; {
	case path == "/v1/agent/self":
		_ = answer.Encode(map[string]any{"config": map[string]any{"Region": "global"}})
	case path == "/v1/nodes":
		stubs := make([]api.NodeListStub, c.nodes)
		for i := range stubs {
			stubs[i] = api.NodeListStub{ID: nodeID(i), ModifyIndex: 10}
		}
		_ = answer.Encode(stubs)
	case strings.HasPrefix(path, "/v1/node/"):
		node := map[string]any{}
		for name, value := range c.node {
			node[name] = value
		}
		node["ID"], node["ModifyIndex"] = strings.TrimPrefix(path, "/v1/node/"), 10
		_ = answer.Encode(node)
	case path == "/v1/jobs":
		stubs := make([]api.JobListStub, c.jobs)
		for i := range stubs {
			stubs[i] = api.JobListStub{ID: jobID(i), Namespace: "default", JobModifyIndex: 10}
		}
		_ = answer.Encode(stubs)
	case strings.HasPrefix(path, "/v1/job/"):
		job := sleeper(strings.TrimPrefix(path, "/v1/job/"), c.allocs/c.jobs, 50, 32)
		job.Namespace, job.JobModifyIndex = new("default"), new(uint64(10))
		*job.TaskGroups[0].Name = "app"
		job.Canonicalize()
		_ = answer.Encode(job)
	case path == "/v1/allocations":
		c.list(w, r, answer)
	case path == "/v1/event/stream":
		c.stream(w, r)
	default:
		http.NotFound(w, r)
	}
}

// list answers a page of the allocations, as Nomad does: its token is what comes next.
func (c *crowd) list(w http.ResponseWriter, r *http.Request, answer *json.Encoder) {
	from, _ := strconv.Atoi(r.URL.Query().Get("next_token")) // none: from the first on
	to := c.allocs
	if most, err := strconv.Atoi(r.URL.Query().Get("per_page")); err == nil && from+most < to {
		to = from + most
		w.Header().Set("X-Nomad-NextToken", strconv.Itoa(to))
	}
	fmt.Fprint(w, "[")
	for i := from; i < to; i++ {
		if i > from {
			fmt.Fprint(w, ",")
		}
		c.alloc["ID"], c.alloc["NodeID"] = fmt.Sprintf("%08x-1111-4000-8000-000000000000", i), nodeID(i%c.nodes)
		c.alloc["JobID"], c.alloc["TaskGroup"], c.alloc["ModifyIndex"] = jobID(i%c.jobs), "app", 10
		_ = answer.Encode(c.alloc)
	}
	fmt.Fprint(w, "]")
}

// stream sends nothing but heartbeats.
func (c *crowd) stream(w http.ResponseWriter, r *http.Request) {
	for tick := time.NewTicker(time.Second); ; {
		fmt.Fprintln(w, "{}")
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
			tick.Stop()
			return
		case <-tick.C:
		}
	}
}

// resident is a controller's memory, in MiB, once it knows a crowd: what it
// holds then, and the most it ever held.
func (c *crowd) resident(t *testing.T) (now, most int) {
	t.Helper()
	nomad := httptest.NewServer(c)
	defer nomad.Close()
	controller := &e2e.Controller{Binary: programs.PSG, Dir: t.TempDir(), Bundle: filepath.Join("testdata", "classes"),
		Nomad: []string{"NOMAD_ADDR=" + nomad.URL}, GRPC: freeAddress(t), REST: freeAddress(t)}
	if err := controller.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		nomad.CloseClientConnections() // the event stream ends by itself never
		if err := controller.Stop(syscall.SIGTERM, 10*time.Second); err != nil {
			t.Error(err)
		}
	}()
	want := fmt.Sprintf("psg_nodes{ready=\"true\"} %d", c.nodes)
	if c.allocs > 0 {
		want = fmt.Sprintf("psg_asks{state=\"running\"} %d", c.allocs)
	}
	start := time.Now()
	if err := e2e.Until(context.Background(), time.Minute, "the controller knows all", func() (bool, error) {
		var all strings.Builder
		response, err := http.Get(controller.URL() + "/metrics")
		if err != nil {
			return false, err
		}
		defer response.Body.Close()
		if err := response.Write(&all); err != nil {
			return false, err
		}
		return strings.Contains(all.String(), want), errors.New(controller.Output())
	}); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d nodes and %d allocations known after %s", c.nodes, c.allocs, time.Since(start).Round(time.Millisecond))
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", controller.PID()))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		_, _ = fmt.Sscanf(line, "VmRSS: %d kB", &now)
		_, _ = fmt.Sscanf(line, "VmHWM: %d kB", &most)
	}
	return now >> 10, most >> 10
}

func TestView_TenThousandAllocationsStayBelow200MB(t *testing.T) {
	nomadBinary(t)
	t.Parallel() // it has a Nomad of its own
	_, idle := newCrowd(t, 1, 1, 0).resident(t)
	now, most := newCrowd(t, 1000, 500, 10_000).resident(t)
	t.Logf("10,000 allocations on 1,000 nodes: %d MiB resident, %d MiB at most; %d MiB with nothing", now, most, idle)
	if most<<20 > 200_000_000 {
		t.Errorf("10,000 allocations take %d MiB, want at most 200 MB", most)
	}
}
