package nomad_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

// movesMade is what psg node rebalance -json prints.
type movesMade struct {
	Moves []psg.Move `json:"moves"`
	Open  int        `json:"open"`
	On    int        `json:"on"`
}

// anywhere is the stanza of a job that the classes policy lets run everywhere,
// and that moves others first.
func anywhere() map[string]any {
	return map[string]any{"kind": "plain", "disruption": map[string]any{"max_unavailable": 0}}
}

// shiftable is a gated job whose instances become healthy at once.
func shiftable(id string, count int) *api.Job {
	job := gated(id, count, anywhere())
	job.Update.MaxParallel = new(1)
	job.Reschedule = &api.ReschedulePolicy{Attempts: new(0), Unlimited: new(false)}
	job.TaskGroups[0].RestartPolicy = &api.RestartPolicy{Attempts: new(0), Mode: new("fail")}
	return job
}

func TestShift(t *testing.T) {
	g := use(t)
	g.Run("a node is emptied, others first, and never fewer run", g.shiftedAway)
	g.Run("a shift whose successors fail leaves the source", g.shiftGivenUp)
}

func (g *grid) rebalance(t *testing.T, args ...string) (movesMade, error) {
	t.Helper()
	out, err := g.psg(append([]string{"node", "rebalance", "-json"}, args...)...)
	var made movesMade
	if json.Unmarshal([]byte(out), &made) != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return made, err
}

// busiest is the node that runs most of a job.
func (g *grid) busiest(job string) (node string) {
	most := 0
	for id, n := range g.runningOn(job) {
		if n > most {
			most, node = n, string(id)
		}
	}
	return node
}

func (g *grid) shiftedAway(t *testing.T) {
	g.register(shiftable("web", 3))
	g.settled("web", 3)
	from := g.busiest("web")
	if _, err := g.client.Nodes().ToggleEligibility(from, false, nil); err != nil {
		t.Fatal(err)
	}
	before, version, fewest := g.ids("web"), *g.job("web").Version, g.fewest("web", 3)
	made, err := g.rebalance(t, "-empty", "-wait", "40s", from)
	if least := fewest(); least < 3 {
		t.Errorf("only %d instances ran, want never fewer than 3", least)
	}
	if err != nil || len(made.Moves) == 0 || made.On != 0 {
		t.Fatalf("%v: %+v", err, made)
	}
	for _, m := range made.Moves {
		if !m.Shift || m.Gap != 0 || m.Versions != 2 || m.GivenUp != "" {
			t.Errorf("move %+v, want others first, no gap and two versions", m)
		}
	}
	job := g.job("web")
	t.Logf("%d moves, %d versions, %+v", len(made.Moves), *job.Version-version, made.Moves[0])
	if g.runningOn("web")[psg.NodeID(from)] > 0 || g.total(g.runningOn("web")) != 3 {
		t.Errorf("web runs on %v, %s is to be empty", g.runningOn("web"), from)
	}
	if u := job.TaskGroups[0].Update; *u.Canary != 0 || *u.AutoPromote {
		t.Errorf("the update block is left with canary %d, auto_promote %t", *u.Canary, *u.AutoPromote)
	}
	if kept := common(before, g.ids("web")); kept != 3-len(made.Moves) {
		t.Errorf("%d allocations stayed, want all but the %d that moved", kept, len(made.Moves))
	}
	g.steady("web", 2*time.Second)
	if _, err := g.client.Nodes().ToggleEligibility(from, true, nil); err != nil {
		t.Fatal(err)
	}
	g.purge("web")
}

func (g *grid) shiftGivenUp(t *testing.T) {
	home := g.nodes[0]
	job := shiftable("picky", 1)
	job.Affinities = []*api.Affinity{api.NewAffinity("${node.unique.id}", "=", home, 100)}
	job.Update.MinHealthyTime = new(3 * time.Second) // else to start is to be healthy
	main := job.TaskGroups[0].Tasks[0]
	main.Config = map[string]any{"command": "/bin/sh", "args": []string{"-c", `[ "$NODE" = "$HOME_NODE" ] || exit 3; exec sleep 600`}}
	main.Env = map[string]string{"NODE": "${node.unique.id}", "HOME_NODE": home}
	g.register(job)
	g.settled("picky", 1)
	if on := g.busiest("picky"); on != home {
		t.Fatalf("picky runs on %s, want it on %s", on, home)
	}
	before, fewest := g.ids("picky"), g.fewest("picky", 1)
	made, err := g.rebalance(t, "-empty", "-wait", "6s", home)
	if least := fewest(); least < 1 {
		t.Error("the source was stopped")
	}
	if err == nil || len(made.Moves) == 0 || made.Moves[0].GivenUp == "" {
		t.Fatalf("%v: %+v, want it given up", err, made)
	}
	t.Logf("given up: %s", made.Moves[0].GivenUp)
	if kept := common(before, g.ids("picky")); kept != 1 {
		t.Errorf("allocations %v, want %v to stay", g.ids("picky"), before)
	}
	if u := g.job("picky").TaskGroups[0].Update; *u.Canary != 0 || *u.AutoPromote {
		t.Errorf("the update block is left with canary %d, auto_promote %t", *u.Canary, *u.AutoPromote)
	}
}

// fewest watches how many instances of a job run until the function it returns
// is called, which says how few they were.
func (g *grid) fewest(job string, count int) func() int {
	least, stop := make(chan int, 1), make(chan struct{})
	go func() {
		fewest, poll := count, time.NewTicker(20*time.Millisecond)
		defer poll.Stop()
		for {
			select {
			case <-stop:
				least <- fewest
				return
			case <-poll.C:
				if all, _, err := g.client.Jobs().Allocations(job, true, nil); err == nil {
					running := 0
					for _, a := range all {
						if main := a.TaskStates["main"]; main != nil && main.State == "running" && a.ClientStatus == api.AllocClientStatusRunning {
							running++
						}
					}
					fewest = min(fewest, running)
				}
			}
		}
	}()
	return func() int { close(stop); return <-least }
}

func common(a, b []string) (n int) {
	for _, one := range a {
		for _, other := range b {
			if one == other {
				n++
			}
		}
	}
	return n
}
