package nomad_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
	e2e "github.com/psgrid/psg/e2e/cluster"
)

// programs are the binaries, and nomadPath is Nomad's; set by TestMain, empty
// where there is no Nomad.
var (
	programs  e2e.Binaries
	nomadPath string
)

// shared is the region that most tests use one after the other.
var shared struct {
	dir    string
	region *region // nil until a test wants it
}

func TestMain(m *testing.M) {
	if config := os.Getenv(asBus); config != "" {
		os.Exit(runBus(config))
	}
	if dir := os.Getenv(asReaper); dir != "" {
		os.Exit(runReaper(dir))
	}
	runtime.LockOSThread() // processes get a signal should the thread that started them die
	path, err := exec.LookPath("nomad")
	if err != nil {
		os.Exit(m.Run())
	}
	nomadPath = path
	code, err := withPrograms(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, "FAIL:", err)
		code = 1
	}
	os.Exit(code)
}

// withPrograms runs the tests on built programs and leaves nothing behind.
func withPrograms(run func() int) (code int, err error) {
	if shared.dir, err = os.MkdirTemp("", "psg-nomad-"); err != nil {
		return 1, err
	}
	done, err := startReaper(shared.dir)
	if err != nil {
		return 1, errors.Join(err, os.Remove(shared.dir))
	}
	defer func() { err = errors.Join(err, nothingLeft(shared.dir), e2e.Remove(shared.dir), done()) }()
	if programs, err = e2e.Build(context.Background(), shared.dir); err != nil {
		return 1, err
	}
	code = run()
	if shared.region != nil {
		err = shared.region.end()
	}
	return code, err
}

// nothingLeft reports the processes of a directory that outlived their owners,
// and ends them.
func nothingLeft(dir string) error {
	err := e2e.Until(context.Background(), 5*time.Second, "everything has ended", func() (bool, error) {
		left := e2e.Leftovers(dir)
		return len(left) == 0, fmt.Errorf("left running:\n%s", strings.Join(left, "\n"))
	})
	for _, process := range e2e.Leftovers(dir) {
		var pid int
		if _, err := fmt.Sscan(process, &pid); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	return err
}

// nomadBinary skips the test, loudly, where there is no nomad.
func nomadBinary(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED: -short leaves out the tests on a real Nomad")
	}
	if nomadPath == "" {
		t.Skip("SKIPPED: NO nomad ON PATH: nothing here was tested on a real Nomad")
	}
}

// grid is a region in the hands of a test.
type grid struct {
	*testing.T
	*region
}

// three are nodes of class a, b and b.
func three() []node {
	return []node{{cpu: 8000, memory: 8000, class: "a"}, {cpu: 8000, memory: 8000, class: "b"}, {cpu: 8000, memory: 8000, class: "b"}}
}

// use returns the shared region, in which no job is and no node is drained, to a
// test that leaves it so.
func use(t *testing.T) *grid {
	t.Helper()
	nomadBinary(t)
	if shared.region == nil {
		r, err := newRegion(filepath.Join(shared.dir, "r"), layout{nodes: three()})
		if err != nil {
			t.Fatal(err)
		}
		shared.region = r
		if err := r.start(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	r := shared.region
	t.Cleanup(func() {
		if err := r.empty(); err != nil {
			t.Error(err)
		}
		for _, id := range r.nodes {
			if _, err := r.client.Nodes().ToggleEligibility(id, true, nil); err != nil {
				t.Error(err)
			}
		}
	})
	return r.on(t) // which tells first what there is, should the test fail
}

// restart stops the controller and starts it again.
func (g *grid) restart(t *testing.T) {
	t.Helper()
	if err := g.controller.Stop(syscall.SIGTERM, 10*time.Second); err != nil {
		t.Error(err)
	}
	if err := g.controller.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// get reads from the controller's REST face; nothing while it does not answer.
func (g *grid) get(path string, into any) {
	response, err := http.Get(g.controller.URL() + path)
	if err != nil {
		return
	}
	defer response.Body.Close()
	_ = json.NewDecoder(response.Body).Decode(into)
}

// until polls until done, or ends the test with what was waited for.
func (g *grid) until(limit time.Duration, what string, done func() bool) {
	g.Helper()
	if err := e2e.Until(context.Background(), limit, what, func() (bool, error) { return done(), nil }); err != nil {
		g.Fatal(err)
	}
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

// register hands a job to Nomad itself.
func (g *grid) register(job *api.Job) {
	g.Helper()
	if _, _, err := g.client.Jobs().Register(job, nil); err != nil {
		g.Fatalf("register %s: %v", *job.ID, err)
	}
}

// allocs are the allocations of a job that are wanted.
func (g *grid) allocs(job string) []*api.AllocationListStub {
	g.Helper()
	all, _, err := g.client.Jobs().Allocations(job, true, nil)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(all, func(a *api.AllocationListStub) bool { return a.DesiredStatus != api.AllocDesiredStatusRun })
}

// purge ends a job, waits until nothing of it runs, and removes it.
func (g *grid) purge(job string) {
	g.Helper()
	for _, purge := range []bool{false, true} {
		if _, _, err := g.client.Jobs().Deregister(job, purge, nil); err != nil {
			g.Fatal(err)
		}
		g.until(60*time.Second, job+" has ended", func() bool {
			all, _, err := g.client.Jobs().Allocations(job, true, nil)
			return err == nil && !slices.ContainsFunc(all, live)
		})
	}
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

// short writes a hint with the clients' numbers.
func (g *grid) short(hint psg.Hint) map[int]int {
	out := map[int]int{}
	for i, node := range g.nodes {
		if n := hint[psg.NodeID(node)]; n > 0 {
			out[i] = n
		}
	}
	return out
}

// psg runs a psg command against the grid.
func (g *grid) psg(args ...string) (string, error) {
	return e2e.Command(context.Background(), append(slices.Clone(g.env), "PSG_ADDR="+g.controller.URL()), programs.PSG, args...)
}

// nomad runs the nomad command against an address.
func (g *grid) nomad(address string, args ...string) (string, error) {
	return e2e.Command(context.Background(), append(slices.Clone(g.env), "NOMAD_ADDR="+address), nomadPath, args...)
}
