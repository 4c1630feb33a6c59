package gate

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/e2e/cluster"
	"github.com/psgrid/psg/rpc"
)

// grid is a Nomad node under a PSG controller.
type grid struct {
	nomad      *cluster.Nomad
	controller *cluster.Controller
	rest       *rpc.RESTClient
}

func (g *grid) start(ctx context.Context) error {
	if err := g.nomad.Start(ctx); err != nil {
		return err
	}
	return g.controller.Start(ctx)
}

// end stops what runs, the agent first: its gates then need no controller.
func (g *grid) end() error {
	var errs []error
	if g.nomad.Process != nil {
		errs = append(errs, g.nomad.End())
	}
	if g.controller.Process != nil {
		errs = append(errs, g.controller.Stop(syscall.SIGTERM, 10*time.Second))
	}
	return errors.Join(errs...)
}

// use returns the shared grid to a test that may run beside others.
func use(t *testing.T) *grid {
	t.Helper()
	g := useAlone(t)
	t.Parallel()
	return g
}

// useAlone returns the shared grid to a test that kills a part of it: no other
// runs meanwhile.
func useAlone(t *testing.T) *grid {
	t.Helper()
	if shared == nil {
		t.Skip(skipped)
	}
	return shared.watched(t)
}

// watched shows what the parts said when the test fails.
func (g *grid) watched(t *testing.T) *grid {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("controller:\n%s\nnomad:\n%s", g.controller.Output(), g.nomad.Output())
		}
	})
	return g
}

// job is a registered job.
type job struct {
	*grid
	id    string
	since uint64 // Nomad's index of the registration
}

// run registers a job file of testdata, whose job has the file's name, and
// takes it away when the test ends.
func (g *grid) run(t *testing.T, name string) *job {
	t.Helper()
	return g.runFile(t, name, filepath.Join("testdata", name+".nomad.hcl"))
}

func (g *grid) runFile(t *testing.T, name, file string) *job {
	t.Helper()
	t.Cleanup(func() { g.stop(t, name) })
	if output, err := g.nomad.Run(t.Context(), "job", "run", "-detach", file); err != nil {
		t.Fatalf("nomad job run %s: %v\n%s", file, err, output)
	}
	found, _, err := g.nomad.Client.Jobs().Info(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &job{g, name, *found.JobModifyIndex}
}

// stop stops a job and waits until the controller knows that it holds nothing.
func (g *grid) stop(t *testing.T, id string) {
	t.Helper()
	if _, _, err := g.nomad.Client.Jobs().Deregister(id, false, nil); err != nil {
		t.Errorf("stop job %s: %v", id, err)
		return
	}
	err := cluster.Until(context.Background(), 15*time.Second, "job "+id+" holds nothing", func() (bool, error) {
		asks, err := g.rest.Asks(context.Background(), "default", id)
		if err != nil {
			return false, err
		}
		for _, ask := range asks {
			if !ask.Over() {
				return false, fmt.Errorf("%s is %s", ask.Ask.ID, ask.State)
			}
		}
		return true, nil
	})
	if err != nil {
		t.Error(err)
	}
}

// await polls until a condition holds, or fails the test with what was seen.
// The context is not the test's, which has ended when a cleanup waits.
func await(t *testing.T, limit time.Duration, what string, done func() (bool, error)) {
	t.Helper()
	if err := cluster.Until(context.Background(), limit, what, done); err != nil {
		t.Fatal(err)
	}
}

// allocs waits for n allocations of the job and returns them, oldest first.
func (j *job) allocs(t *testing.T, n int) []*alloc {
	t.Helper()
	var found []*alloc
	await(t, 10*time.Second, fmt.Sprintf("job %s has %d allocations", j.id, n), func() (bool, error) {
		stubs, _, err := j.nomad.Client.Jobs().Allocations(j.id, true, nil)
		if err != nil {
			return false, err
		}
		slices.SortFunc(stubs, func(a, b *api.AllocationListStub) int { return int(a.CreateIndex) - int(b.CreateIndex) })
		found = nil
		for _, stub := range stubs {
			if stub.CreateIndex > j.since { // not an earlier test's
				found = append(found, &alloc{j.grid, stub.ID})
			}
		}
		return len(found) == n, fmt.Errorf("it has %d", len(found))
	})
	return found
}

// alloc waits for the job's only allocation.
func (j *job) alloc(t *testing.T) *alloc {
	t.Helper()
	return j.allocs(t, 1)[0]
}

// alloc is an allocation.
type alloc struct {
	*grid
	id string
}

func (a *alloc) info(t *testing.T) *api.Allocation {
	t.Helper()
	info, _, err := a.nomad.Client.Allocations().Info(a.id, nil)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// task waits until the state of a task is as wanted.
func (a *alloc) task(t *testing.T, name, what string, want func(*api.TaskState) bool) *api.TaskState {
	t.Helper()
	var state *api.TaskState
	await(t, 15*time.Second, fmt.Sprintf("task %s of %s %s", name, a.id, what), func() (bool, error) {
		state = a.info(t).TaskStates[name]
		if state == nil {
			return false, errors.New("it has no state")
		}
		return want(state), fmt.Errorf("it is %s: %s", state.State, strings.Join(messages(state), " | "))
	})
	return state
}

// runs waits until a task runs.
func (a *alloc) runs(t *testing.T, name string) *api.TaskState {
	t.Helper()
	return a.task(t, name, "runs", func(s *api.TaskState) bool { return s.State == "running" })
}

// ends waits until a task has ended, and returns the event of its end.
func (a *alloc) ends(t *testing.T, name string) *api.TaskEvent {
	t.Helper()
	state := a.task(t, name, "has ended", func(s *api.TaskState) bool {
		return s.State == "dead" && event(s, api.TaskTerminated) != nil
	})
	return event(state, api.TaskTerminated)
}

// says waits until an event of a task holds a text.
func (a *alloc) says(t *testing.T, name, text string) {
	t.Helper()
	a.task(t, name, fmt.Sprintf("says %q", text), func(s *api.TaskState) bool {
		return slices.ContainsFunc(messages(s), func(m string) bool { return strings.Contains(m, text) })
	})
}

// nomadSays waits until the output of a nomad command about the allocation
// holds a text.
func (a *alloc) nomadSays(t *testing.T, text string, args ...string) string {
	t.Helper()
	var output string
	await(t, 10*time.Second, fmt.Sprintf("nomad %s prints %q", strings.Join(args, " "), text), func() (bool, error) {
		var err error
		output, err = a.nomad.Run(t.Context(), append(args, a.id)...)
		return strings.Contains(strings.Join(strings.Fields(output), " "), text), fmt.Errorf("%v\n%s", err, output)
	})
	return output
}

// ask waits until the controller has the allocation's ask in a state.
func (a *alloc) ask(t *testing.T, want psg.State) psg.AskStatus {
	t.Helper()
	var status psg.AskStatus
	await(t, 15*time.Second, fmt.Sprintf("the ask of %s is %s", a.id, want), func() (bool, error) {
		var err error
		status, err = a.rest.Ask(t.Context(), a.id)
		return err == nil && status.State == want, errors.Join(err, fmt.Errorf("it is %s", status.State))
	})
	return status
}

// event is the last event of a type.
func event(state *api.TaskState, kind string) *api.TaskEvent {
	for _, e := range slices.Backward(state.Events) {
		if e.Type == kind {
			return e
		}
	}
	return nil
}

func messages(state *api.TaskState) []string {
	var all []string
	for _, e := range state.Events {
		all = append(all, e.Type+": "+e.DisplayMessage)
	}
	return all
}
