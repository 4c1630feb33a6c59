package nomad_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

// grid is a Nomad with PSG beside it.
type grid struct {
	*cluster
	rest string // the controller's REST face
}

// programs are the binaries, built once for all tests.
var programs = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "psg-e2e-bin-")
	if err != nil {
		return "", err
	}
	out, err := exec.Command("go", "build", "-o", dir+"/", "github.com/psgrid/psg/cmd/psg", "github.com/psgrid/psg/cmd/nomad-driver-psg").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := programs(); err == nil {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

func program(t testing.TB, name string) string {
	t.Helper()
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name)
}

// three are nodes of class a, b and b.
func three() []client {
	return []client{{cpu: 8000, memory: 8000, class: "a"}, {cpu: 8000, memory: 8000, class: "b"}, {cpu: 8000, memory: 8000, class: "b"}}
}

// startGrid starts a controller with the classes policy, and a Nomad whose
// gates ask it.
func startGrid(t *testing.T, clients ...client) *grid {
	t.Helper()
	nomadBinary(t)
	ports := freePorts(t, 2)
	gates, rest := fmt.Sprintf("127.0.0.1:%d", ports[0]), fmt.Sprintf("127.0.0.1:%d", ports[1])
	g := &grid{cluster: startCluster(t, gates, clients...), rest: "http://" + rest}
	g.process("controller", "controller", "-data-dir", filepath.Join(t.TempDir(), "bus"), "-nats-listen", "",
		"-bundle", filepath.Join("testdata", "classes"), "-grpc", gates, "-http", rest)
	g.until(20*time.Second, "the controller knows the nodes", func() bool {
		var nodes []psg.Node
		g.get("/v1/nodes", &nodes)
		ready := 0
		for _, n := range nodes {
			if n.Ready && slices.Contains(n.Drivers, "psg") {
				ready++
			}
		}
		return ready == len(clients)
	})
	return g
}

// process runs psg until the test ends.
func (g *grid) process(name string, args ...string) {
	g.Helper()
	a := &agent{command: exec.Command(program(g.T, "psg"), args...), ended: make(chan struct{})}
	a.command.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "NOMAD_") }),
		"NOMAD_ADDR="+g.address)
	a.command.Stdout, a.command.Stderr = &a.output, &a.output
	a.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := a.command.Start(); err != nil {
		g.Fatal(err)
	}
	go func() { defer close(a.ended); _ = a.command.Wait() }()
	g.Cleanup(func() { a.stop(g.T, name) })
}

func (g *grid) get(path string, into any) {
	response, err := http.Get(g.rest + path)
	if err != nil {
		return
	}
	defer response.Body.Close()
	_ = json.NewDecoder(response.Body).Decode(into)
}

// gated is a sleeper behind a gate with a stanza.
func gated(id string, count int, stanza map[string]any) *api.Job {
	job := sleeper(id, count, 100, 64)
	gate := api.NewTask("gate", "psg")
	gate.Lifecycle = &api.TaskLifecycle{Hook: api.TaskLifecycleHookPrestart}
	gate.Config = stanza
	gate.Resources = &api.Resources{CPU: new(10), MemoryMB: new(16)}
	gate.LogConfig = &api.LogConfig{Disabled: new(true)}
	job.TaskGroups[0].Tasks = append(job.TaskGroups[0].Tasks, gate)
	job.Update = &api.UpdateStrategy{MinHealthyTime: new(time.Duration(0)), HealthCheck: new("task_states")}
	return job
}

// runningOn counts the instances of a job whose main task runs, by node.
func (g *grid) runningOn(job string) psg.Hint {
	on := psg.Hint{}
	for _, a := range g.allocs(job) {
		if main := a.TaskStates["main"]; main != nil && main.State == "running" && a.ClientStatus == api.AllocClientStatusRunning {
			on[psg.NodeID(a.NodeID)]++
		}
	}
	return on
}

func (g *grid) total(on psg.Hint) (n int) {
	for _, one := range on {
		n += one
	}
	return n
}

func (g *grid) job(id string) *api.Job {
	g.Helper()
	job, _, err := g.client.Jobs().Info(id, nil)
	if err != nil {
		g.Fatal(err)
	}
	return job
}

// steady fails if the job gets another version, or an allocation, within a while.
func (g *grid) steady(id string, while time.Duration) {
	g.Helper()
	version, allocs := *g.job(id).Version, g.ids(id)
	end := time.After(while)
	for {
		select {
		case <-end:
			return
		case <-time.After(100 * time.Millisecond):
			if now := *g.job(id).Version; now != version {
				g.Fatalf("job %s went from version %d to %d although nothing was to be done", id, version, now)
			}
			if now := g.ids(id); !slices.Equal(now, allocs) {
				g.Fatalf("job %s had allocations %v and now has %v", id, allocs, now)
			}
		}
	}
}

func (g *grid) ids(job string) []string {
	var ids []string
	for _, a := range g.allocs(job) {
		ids = append(ids, a.ID)
	}
	slices.Sort(ids)
	return ids
}
