package nomad_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	e2e "github.com/psgrid/psg/e2e/cluster"
)

// lives are the job files of testdata/jobs and what comes of each: how many
// allocations are wanted, or of a batch job have been, and their status.
var lives = []struct {
	file   string
	allocs int
	status string
	step   func(*life) // what is done with the job once it has come that far
}{
	{"system", 3, "running", nil},
	{"sysbatch", 3, "complete", nil},
	{"batch", 2, "complete", nil},
	{"periodic", 1, "complete", (*life).force},
	{"parameterized", 1, "complete", (*life).dispatch},
	{"multi-group", 3, "running", nil},
	{"devices", 1, "running", nil},
	{"host-volume", 1, "running", nil},
	{"lifecycle", 1, "complete", nil},
	{"canary", 3, "running", (*life).release},
	{"rescheduled", 2, "failed", nil},
}

// TestJobs_LiveAsWithoutPSG runs each job as Nomad alone runs it, without its
// gates, and beside that through the proxy with them. What becomes of the job,
// its deployments and the user's tasks must not differ.
func TestJobs_LiveAsWithoutPSG(t *testing.T) {
	g := use(t)
	through, _ := g.proxied()
	t.Run("all", func(t *testing.T) {
		for _, one := range lives {
			t.Run(one.file, func(t *testing.T) {
				t.Parallel()
				plain, gated := newLife(t, g, g.client, one.file, false), newLife(t, g, through, one.file, true)
				for _, l := range []*life{plain, gated} {
					l.register()
					if one.step != nil {
						one.step(l)
					}
				}
				same(t, plain, gated, func(text string) bool {
					return strings.Count(text, one.status+":") == one.allocs && !strings.Contains(text, "is running (") // nor is it deployed
				})
				for _, l := range []*life{plain, gated} {
					if l.planned() {
						t.Errorf("the same file again would change %s", l.id)
					}
					l.stop()
				}
				same(t, plain, gated, func(text string) bool { return !strings.Contains(text, "running") })
			})
		}
	})
}

// same waits until nothing moves any more in either, and both have come to the
// same.
func same(t *testing.T, plain, gated *life, done func(string) bool) {
	t.Helper()
	var a, b string
	err := e2e.Until(t.Context(), time.Minute, "both have come to the same", func() (bool, error) {
		var errA, errB error
		a, errA = plain.tell()
		b, errB = gated.tell()
		return errA == nil && errB == nil && done(a) && a == b, errors.Join(errA, errB)
	})
	if err != nil {
		t.Fatalf("%v\nwithout PSG:\n%swith PSG:\n%s", err, a, b)
	}
}

// life is a job file as it is registered once.
type life struct {
	*testing.T
	grid   *grid
	client *api.Client // by which it is registered and changed
	id     string
	gates  bool
	job    *api.Job
}

func newLife(t *testing.T, g *grid, by *api.Client, file string, gates bool) *life {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("testdata", "jobs", file+".nomad.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	job, err := g.client.Jobs().ParseHCL(string(source), true)
	if err != nil {
		t.Fatal(err)
	}
	l := &life{T: t, grid: g, client: by, id: "plain-" + file, gates: gates, job: job}
	if gates {
		l.id = "gated-" + file
	}
	job.ID, job.Name = &l.id, &l.id
	for _, group := range job.TaskGroups {
		group.Tasks = slices.DeleteFunc(group.Tasks, func(task *api.Task) bool { return !gates && task.Driver == "psg" })
		for _, task := range group.Tasks {
			task.LogConfig = &api.LogConfig{Disabled: new(true)}
			task.KillTimeout = new(time.Second)
		}
	}
	return l
}

func (l *life) register() {
	l.Helper()
	if _, _, err := l.client.Jobs().Register(l.job, nil); err != nil {
		l.Fatalf("register %s: %v", l.id, err)
	}
}

func (l *life) stop() {
	l.Helper()
	if _, _, err := l.client.Jobs().Deregister(l.id, false, nil); err != nil {
		l.Fatalf("stop %s: %v", l.id, err)
	}
}

// planned reports whether Nomad says that registering the file again changes
// something.
func (l *life) planned() bool {
	l.Helper()
	plan, _, err := l.client.Jobs().Plan(l.job, true, nil)
	if err != nil {
		l.Fatalf("plan %s: %v", l.id, err)
	}
	return plan.Diff.Type != "None"
}

func (l *life) force() {
	if _, _, err := l.client.Jobs().PeriodicForce(l.id, nil); err != nil {
		l.Fatalf("force %s: %v", l.id, err)
	}
}

func (l *life) dispatch() {
	if _, _, err := l.client.Jobs().Dispatch(l.id, map[string]string{"who": "me"}, []byte("a piece of cake"), "", nil); err != nil {
		l.Fatalf("dispatch %s: %v", l.id, err)
	}
}

// release deploys the next version by canary and promotes it.
func (l *life) release() {
	l.deployed(func(d *api.Deployment) bool { return d.Status == api.DeploymentStatusSuccessful })
	l.job.Meta["release"] = "2"
	l.register()
	d := l.deployed(func(d *api.Deployment) bool {
		return d.JobVersion == 1 && d.TaskGroups["web"].HealthyAllocs == 1 && len(d.TaskGroups["web"].PlacedCanaries) == 1
	})
	if _, _, err := l.client.Deployments().PromoteAll(d.ID, nil); err != nil {
		l.Fatalf("promote %s: %v", l.id, err)
	}
	l.deployed(func(d *api.Deployment) bool { return d.JobVersion == 1 && d.Status == api.DeploymentStatusSuccessful })
}

// deployed waits until the last deployment is as wanted.
func (l *life) deployed(want func(*api.Deployment) bool) *api.Deployment {
	l.Helper()
	var last *api.Deployment
	if err := e2e.Until(l.Context(), time.Minute, "the deployment of "+l.id, func() (bool, error) {
		var err error
		last, _, err = l.grid.client.Jobs().LatestDeployment(l.id, nil)
		return err == nil && last != nil && want(last), errors.Join(err, fmt.Errorf("%+v", last))
	}); err != nil {
		l.Fatal(err)
	}
	return last
}

// tell is what has become of the job and its children, without what differs
// between any two jobs: names, times, places.
func (l *life) tell() (string, error) {
	ids := []string{l.id}
	children, _, err := l.grid.client.Jobs().PrefixList(l.id + "/")
	if err != nil {
		return "", err
	}
	for _, child := range children {
		ids = append(ids, child.ID)
	}
	var all strings.Builder
	for _, id := range ids {
		lines, err := l.tellOf(id)
		if err != nil {
			return "", err
		}
		all.WriteString(strings.Join(lines, "\n") + "\n")
	}
	return all.String(), nil
}

func (l *life) tellOf(id string) ([]string, error) {
	jobs := l.grid.client.Jobs()
	job, _, err := jobs.Info(id, nil)
	if err != nil {
		return nil, err
	}
	deployments, _, err := jobs.Deployments(id, true, nil)
	if err != nil {
		return nil, err
	}
	stubs, _, err := jobs.Allocations(id, true, nil)
	if err != nil {
		return nil, err
	}
	lines := []string{fmt.Sprintf("job is %s in version %d", *job.Status, *job.Version)}
	for _, d := range deployments {
		for name, group := range d.TaskGroups {
			lines = append(lines, fmt.Sprintf("deployment of version %d is %s (%s): %s wants %d, canaries %d, promoted %t, healthy %d, unhealthy %d", d.JobVersion,
				d.Status, d.StatusDescription, name, group.DesiredTotal, group.DesiredCanaries, group.Promoted, group.HealthyAllocs, group.UnhealthyAllocs))
		}
	}
	for _, stub := range stubs {
		a, _, err := l.grid.client.Allocations().Info(stub.ID, nil)
		if err != nil {
			return nil, err
		}
		if !l.turnedAway(a) {
			lines = append(lines, l.tellAlloc(a))
		}
	}
	slices.Sort(lines)
	return lines, nil
}

// turnedAway reports whether the allocation was stopped at its gate, to start
// elsewhere.
func (l *life) turnedAway(a *api.Allocation) bool {
	if !l.gates || a.DesiredStatus == api.AllocDesiredStatusRun {
		return false
	}
	for name, state := range a.TaskStates {
		if name == "main" && started(state) {
			return false
		}
	}
	return true
}

func started(state *api.TaskState) bool {
	return slices.ContainsFunc(state.Events, func(e *api.TaskEvent) bool { return e.Type == api.TaskStarted })
}

func (l *life) tellAlloc(a *api.Allocation) string {
	var tasks []string
	for name, state := range a.TaskStates {
		if name == "gate" {
			continue
		}
		var kinds []string
		for _, e := range state.Events {
			if len(kinds) == 0 || kinds[len(kinds)-1] != e.Type {
				kinds = append(kinds, e.Type)
			}
		}
		tasks = append(tasks, fmt.Sprintf("%s %s failed=%t restarts=%d %s", name, state.State, state.Failed, state.Restarts, strings.Join(kinds, ", ")))
	}
	slices.Sort(tasks)
	name := a.Name[strings.LastIndexByte(a.Name, '.')+1:]
	return fmt.Sprintf("allocation %s of version %d, rescheduled %t, wanted %s, is %s: %s", name, *a.Job.Version, a.NextAllocation != "",
		a.DesiredStatus, a.ClientStatus, strings.Join(tasks, "; "))
}
