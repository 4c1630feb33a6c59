package nomad_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/shim"
)

// sleeper is a job of one group whose instances do nothing.
func sleeper(id string, count, cpu, memory int) *api.Job {
	job := api.NewServiceJob(id, id, "global", 50)
	job.Datacenters = []string{"*"}
	task := api.NewTask("main", "raw_exec").SetConfig("command", "/bin/sleep").SetConfig("args", []string{"3600"})
	task.Resources = &api.Resources{CPU: &cpu, MemoryMB: &memory}
	task.LogConfig = &api.LogConfig{Disabled: new(true)}
	task.KillTimeout = new(time.Second)
	return job.AddTaskGroup(api.NewTaskGroup("g", count).AddTask(task))
}

// TestSteer_PlacesWhereHinted registers jobs of 1 to 5 instances with a random
// distribution over three unevenly loaded nodes, with and without constraints,
// affinities and spreads of the user's own, and counts how many land exactly,
// under each of Nomad's scheduler algorithms.
func TestSteer_PlacesWhereHinted(t *testing.T) {
	g := use(t)
	for i, node := range g.nodes { // uneven load
		g.register(Pinned(sleeper(fmt.Sprint("load", i), 1, 500+1500*i, 600+1500*(2-i)), node))
	}
	t.Cleanup(func() { g.schedule(t, api.SchedulerAlgorithmBinpack) })
	for seed, algorithm := range []api.SchedulerAlgorithm{api.SchedulerAlgorithmBinpack, api.SchedulerAlgorithmSpread} {
		t.Run(string(algorithm), func(t *testing.T) {
			g.schedule(t, algorithm)
			g.hints(t, rand.New(rand.NewPCG(1, uint64(seed))), string(algorithm))
		})
	}
}

// schedule has Nomad choose nodes by an algorithm.
func (g *grid) schedule(t *testing.T, algorithm api.SchedulerAlgorithm) {
	t.Helper()
	_, _, err := g.client.Operator().SchedulerSetConfiguration(&api.SchedulerConfiguration{
		SchedulerAlgorithm: algorithm, MemoryOversubscriptionEnabled: true,
	}, nil)
	if err != nil {
		t.Error(err)
	}
}

func (g *grid) hints(t *testing.T, rng *rand.Rand, name string) {
	const tries = 100
	exact := 0
	for i := range tries {
		id := fmt.Sprint(name, i)
		count := 1 + i%5
		job := sleeper(id, count, 100+rng.IntN(800), 64+rng.IntN(800))
		users(rng, job, g.nodes)
		want := psg.Hint{}
		for range count {
			want[psg.NodeID(g.nodes[rng.IntN(3)])]++
		}
		g.register(shim.Steer(job, map[string]psg.Hint{"g": want}))
		g.until(10*time.Second, id+" is placed", func() bool { return len(g.allocs(id)) == count })
		got := psg.Hint{}
		for _, a := range g.allocs(id) {
			got[psg.NodeID(a.NodeID)]++
		}
		if maps.Equal(got, want) {
			exact++
		} else {
			t.Logf("%s: got %v, want %v", id, g.short(got), g.short(want))
		}
		g.purge(id)
	}
	t.Logf("%d of %d placements are exactly as hinted", exact, tries)
	if exact < 95*tries/100 {
		t.Errorf("%d of %d placements are exactly as hinted, want 95 of 100", exact, tries)
	}
}

// users gives the job wishes of the user's own, which do not contradict a hint
// on any node but pull elsewhere.
func users(rng *rand.Rand, job *api.Job, nodes []string) {
	g := job.TaskGroups[0]
	if rng.IntN(2) == 0 {
		g.Constraints = append(g.Constraints, api.NewConstraint("${attr.kernel.name}", "=", "linux"))
	}
	if rng.IntN(3) == 0 {
		g.Affinities = append(g.Affinities, api.NewAffinity("${node.unique.name}", "=", fmt.Sprint("client", rng.IntN(3)), 50))
	}
	if rng.IntN(3) == 0 {
		job.Spreads = append(job.Spreads, api.NewSpread("${node.datacenter}", 50, nil))
	}
}

// Pinned binds a job to a node.
func Pinned(job *api.Job, node string) *api.Job {
	job.Constraints = append(job.Constraints, api.NewConstraint("${node.unique.id}", "=", node))
	return job
}
