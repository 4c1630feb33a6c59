package nomad_test

import (
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/shim"
)

func TestElsewhere_IsBroughtToWherePolicyAllowsIt(t *testing.T) {
	g := use(t)
	g.Run("service", func(t *testing.T) { g.adopt(t, gated("service", 3, classB())) })
	g.Run("batch", func(t *testing.T) {
		job := gated("batch", 2, classB())
		job.Type, job.Update = new(api.JobTypeBatch), nil
		g.adopt(t, job)
	})
	g.Run("applied again without its hints", func(t *testing.T) {
		job := gated("service", 3, classB())
		before := g.ids("service")
		was := *g.job("service").Version
		for range 3 {
			g.register(job)
		}
		g.steady("service", 2*time.Second)
		if now := *g.job("service").Version; now > was+1 {
			t.Errorf("three equal registrations made %d versions, want one: the hints went", now-was)
		}
		if after := g.ids("service"); len(after) != 3 || after[0] != before[0] {
			t.Errorf("allocations %v became %v: something was restarted", before, after)
		}
	})
	g.Run("held gang", g.gang)
	g.Run("held parent", g.parent)
	g.Run("rescheduled away by a penalty", g.penalty)
}

// penalty has a task fail once on the only node where its job may run. Nomad
// then prefers any other; PSG brings it back.
func (g *grid) penalty(t *testing.T) {
	if err := g.empty(); err != nil {
		t.Fatal(err)
	}
	g.register(Pinned(sleeper("full", 1, 7500, 64), g.nodes[2]))
	g.until(10*time.Second, "one node of class b is full", func() bool { return g.total(g.runningOn("full")) == 1 })
	job := gated("penalized", 1, classB())
	job.TaskGroups[0].Tasks[0].Resources.CPU = new(1000)
	job.TaskGroups[0].Tasks[0].Config = map[string]any{"command": "/bin/sh",
		"args": []string{"-c", "test -e " + g.volume() + "/once && exec sleep 3600; touch " + g.volume() + "/once; exit 1"}}
	job.TaskGroups[0].RestartPolicy = &api.RestartPolicy{Attempts: new(0), Mode: new("fail")}
	job.TaskGroups[0].ReschedulePolicy = &api.ReschedulePolicy{Attempts: new(0), Interval: new(time.Duration(0)), Delay: new(5 * time.Second), DelayFunction: new("constant"), Unlimited: new(true)}
	job.Type, job.Update = new(api.JobTypeBatch), nil
	g.register(job)
	g.until(60*time.Second, "it runs again on class b", func() bool { return g.runningOn("penalized")[psg.NodeID(g.nodes[1])] == 1 })
	all, _, err := g.client.Jobs().Allocations("penalized", true, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(all, func(a *api.AllocationListStub) bool { return a.ClientStatus == api.AllocClientStatusFailed }) {
		t.Error("nothing had failed")
	}
	g.steady("penalized", time.Second)
}

// parent shows that the hold of a job whose children run is not left to them:
// Nomad's API could not take it off.
func (g *grid) parent(t *testing.T) {
	job := gated("parent", 1, classB())
	job.Type, job.Update = new(api.JobTypeBatch), nil
	job.ParameterizedJob = &api.ParameterizedJobConfig{}
	job.Constraints = append(job.Constraints, api.NewConstraint("${meta.psg_hold}", "=", "never"))
	g.register(job)
	g.until(20*time.Second, "the hold is off", func() bool { return len(g.job("parent").Constraints) == 0 })
	child, _, err := g.client.Jobs().Dispatch("parent", nil, nil, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	g.until(30*time.Second, "the child runs on class b", func() bool {
		on := g.runningOn(child.DispatchedJobID)
		return g.total(on) == 1 && on[psg.NodeID(g.nodes[0])] == 0
	})
	if job := g.job(child.DispatchedJobID); *job.JobModifyIndex != *job.CreateIndex {
		t.Errorf("the child was changed at %d, want it left as it was dispatched at %d", *job.JobModifyIndex, *job.CreateIndex)
	}
}

func classB() map[string]any {
	return map[string]any{"labels": map[string]string{"class": "b"}}
}

// adopt registers a job with Nomad itself; PSG finds it at the gates.
func (g *grid) adopt(t *testing.T, job *api.Job) {
	source := &api.JobSubmission{Source: "# as the user wrote it", Format: "hcl2"}
	if _, _, err := g.client.Jobs().RegisterOpts(job, &api.RegisterOptions{Submission: source}, nil); err != nil {
		t.Fatal(err)
	}
	id, count := *job.ID, *job.TaskGroups[0].Count
	start := time.Now()
	g.until(30*time.Second, id+" runs on class b", func() bool {
		on := g.runningOn(id)
		return g.total(on) == count && on[psg.NodeID(g.nodes[0])] == 0
	})
	took := time.Since(start)
	if *job.Type == api.JobTypeService {
		g.until(10*time.Second, "its deployment succeeds", func() bool {
			last, _, err := g.client.Jobs().LatestDeployment(id, nil)
			return err == nil && last != nil && last.Status == api.DeploymentStatusSuccessful && last.JobVersion == *g.job(id).Version
		})
	}
	g.steady(id, 2*time.Second)
	now := g.job(id)
	t.Logf("%s: %d job versions for %d instances, %s", id, *now.Version+1, count, took.Round(time.Millisecond))
	if *now.Version > 3 {
		t.Errorf("%d job versions, want at most one registration and three stages", *now.Version+1)
	}
	if !shim.Steered(now) {
		t.Log("Nomad put every instance on class b by itself")
		return
	}
	kept, _, err := g.client.Jobs().Submission(id, int(*now.Version), nil)
	if err != nil || kept.Source != source.Source {
		t.Errorf("source of version %d is %v, %v; want it kept", *now.Version, kept, err)
	}
}

func (g *grid) gang(t *testing.T) {
	job := gated("gang", 4, map[string]any{"gang": true, "labels": map[string]string{"class": "b"}})
	job.TaskGroups[0].Tasks[0].Resources.CPU = new(3000) // two on a node
	job.Constraints = append(job.Constraints, api.NewConstraint("${meta.psg_hold}", "=", "never"))
	blocker := Pinned(sleeper("blocker", 1, 6000, 64), g.nodes[1])
	g.register(blocker)
	g.until(10*time.Second, "the blocker runs", func() bool { return g.total(g.runningOn("blocker")) == 1 })
	g.register(job)
	g.until(10*time.Second, "PSG queues the gang", func() bool { return g.asks("gang", psg.Queued) == 4 })
	if allocs := g.ids("gang"); len(allocs) > 0 {
		t.Fatalf("allocations %v hold resources of Nomad while the gang waits", allocs)
	}
	g.purge("blocker")
	start := time.Now()
	g.until(20*time.Second, "the gang runs", func() bool { return g.total(g.runningOn("gang")) == 4 })
	on := g.runningOn("gang")
	t.Logf("the gang runs %s after there was room, on %v, version %d", time.Since(start).Round(time.Millisecond), g.short(on), *g.job("gang").Version)
	if on[psg.NodeID(g.nodes[1])] != 2 || on[psg.NodeID(g.nodes[2])] != 2 {
		t.Errorf("the gang runs on %v, want two on each node of class b", g.short(on))
	}
	if version := *g.job("gang").Version; version != 1 {
		t.Errorf("%d versions, want the held one and the released one", version+1)
	}
	before := g.ids("gang")
	for range 2 {
		was := *g.job("gang").Version
		g.register(job) // as GitOps does, hold and all
		g.until(20*time.Second, "the hold is off", func() bool { return *g.job("gang").Version > was+1 })
		if now := *g.job("gang").Version; now > was+2 {
			t.Errorf("one registration made %d versions, want two", now-was)
		}
	}
	g.steady("gang", 3*time.Second)
	if after := g.ids("gang"); len(after) != 4 || after[0] != before[0] || after[3] != before[3] {
		t.Errorf("allocations %v became %v: something was restarted", before, after)
	}
}

func (g *grid) asks(job string, state psg.State) (n int) {
	var asks []psg.AskStatus
	g.get("/v1/asks?namespace=default&job="+job, &asks)
	for _, s := range asks {
		if s.State == state {
			n++
		}
	}
	return n
}
