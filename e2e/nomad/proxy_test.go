package nomad_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
	e2e "github.com/psgrid/psg/e2e/cluster"
	"github.com/psgrid/psg/shim"
)

// proxied is a client of a proxy in front of the grid, without a token, and the
// proxy's address.
func (g *grid) proxied() (*api.Client, string) {
	g.Helper()
	at := freeAddress(g)
	process, err := e2e.Launch(g.TempDir(), "proxy", g.env, programs.PSG, "shim", "proxy", "-listen", at, "-controllers", g.controller.URL())
	if err != nil {
		g.Fatal(err)
	}
	g.Cleanup(func() {
		if err := process.Stop(syscall.SIGTERM, 10*time.Second); err != nil {
			g.Error(err)
		}
		if g.Failed() {
			g.Logf("proxy:\n%s", process.Output())
		}
	})
	client, err := api.NewClient(&api.Config{Address: "http://" + at})
	if err != nil {
		g.Fatal(err)
	}
	g.until(10*time.Second, "the proxy serves", func() bool { _, err := client.Status().Leader(); return err == nil })
	return client, "http://" + at
}

func TestProxy(t *testing.T) {
	g := use(t)
	through, address := g.proxied()
	g.Run("D3 ids with any characters are judged and steered", func(t *testing.T) { g.anyID(t, through) })
	g.Run("D4 scale, revert and dispatch are judged and steered", func(t *testing.T) { g.otherWrites(t, through, address) })
	g.Run("D5 the same job every minute changes nothing", func(t *testing.T) { g.again(t, through, address) })
	g.Run("a gang without room is held, and started as a whole", func(t *testing.T) { g.heldGang(t, through) })
	g.Run("what PSG does not manage passes untouched", func(t *testing.T) { g.passes(t, through, address) })
	g.Run("what is none of PSG's is answered as by Nomad", func(t *testing.T) { g.same(t, address) })
	g.Run("requests of Nomad's page, Terraform and levant", func(t *testing.T) { g.tools(t, through, address) })
	g.Run("namespaces, regions and chunked bodies", func(t *testing.T) { g.addressed(t, through, address) })
}

func (g *grid) anyID(t *testing.T, through *api.Client) {
	for _, id := range []string{"Team.Web_1", "9lives", "a/b", "über", "x y", "job/plan", "%2F"} {
		bad := gated(id, 1, map[string]any{"labels": map[string]string{"forbidden": "by test"}})
		_, _, err := through.Jobs().Register(bad, nil)
		if err == nil || !strings.Contains(err.Error(), "forbidden: by test") {
			t.Errorf("%q: %v, want policy's reason", id, err)
		}
		if jobs, _, err := g.client.Jobs().List(nil); err != nil || slices.ContainsFunc(jobs, func(j *api.JobListStub) bool { return j.ID == id }) {
			t.Errorf("%q: Nomad has the job (%v)", id, err)
		}
		if id == "x y" || id == "job/plan" {
			continue // Nomad takes no blanks, and cannot be asked for the other
		}
		good := gated(id, 2, classB())
		if _, _, err := through.Jobs().Register(good, nil); err != nil {
			t.Errorf("%q: %v", id, err)
			continue
		}
		g.until(20*time.Second, id+" runs", func() bool { return g.total(g.runningOn(id)) == 2 })
		if on := g.runningOn(id); on[psg.NodeID(g.nodes[0])] > 0 {
			t.Errorf("%q runs on %v", id, g.short(on))
		}
		now := g.job(id)
		if !shim.Steered(now) || *now.Version != 0 {
			t.Errorf("%q: steered %t, version %d; want it steered in its first version", id, shim.Steered(now), *now.Version)
		}
		g.purge(id)
	}
}

func (g *grid) otherWrites(t *testing.T, through *api.Client, address string) {
	job := gated("written", 1, classB())
	if _, _, err := through.Jobs().Register(job, nil); err != nil {
		t.Fatal(err)
	}
	g.settled("written", 1)
	if out, err := g.nomad(address, "job", "scale", "-detach", "written", "g", "4"); err != nil {
		t.Fatalf("scale: %v\n%s", err, out)
	}
	g.settled("written", 4)
	if on := g.runningOn("written"); on[psg.NodeID(g.nodes[0])] > 0 {
		t.Errorf("scaled out to %v", g.short(on))
	}
	changed := gated("written", 2, classB())
	changed.Meta = map[string]string{"v": "2"}
	if _, _, err := through.Jobs().Register(changed, nil); err != nil {
		t.Fatal(err)
	}
	g.settled("written", 2)
	if out, err := g.nomad(address, "job", "revert", "-detach", "written", "0"); err != nil {
		t.Fatalf("revert: %v\n%s", err, out)
	}
	g.settled("written", 1)
	// A version that policy would not admit, registered behind the proxy's back.
	bad := gated("written", 1, map[string]any{"labels": map[string]string{"forbidden": "by test"}})
	g.register(bad)
	version := fmt.Sprint(*g.job("written").Version)
	g.register(changed)
	for _, args := range [][]string{{"job", "revert", "-detach", "written", version}} {
		if out, err := g.nomad(address, args...); err == nil || !strings.Contains(out, "forbidden: by test") {
			t.Errorf("nomad %v: %v\n%s", args, err, out)
		}
	}
	g.register(bad)
	if out, err := g.nomad(address, "job", "scale", "-detach", "written", "g", "2"); err == nil || !strings.Contains(out, "forbidden: by test") {
		t.Errorf("scale of a job that policy rejects: %v\n%s", err, out)
	}
	batch := gated("param", 1, map[string]any{"labels": map[string]string{"forbidden": "by test"}})
	batch.Type, batch.Update = new(api.JobTypeBatch), nil
	batch.ParameterizedJob = &api.ParameterizedJobConfig{}
	g.register(batch)
	if out, err := g.nomad(address, "job", "dispatch", "-detach", "param"); err == nil || !strings.Contains(out, "forbidden: by test") {
		t.Errorf("dispatch of a job that policy rejects: %v\n%s", err, out)
	}
	g.purge("written")
	g.purge("param")
}

// settled waits until a job runs with a count, and nothing of it is deployed.
func (g *grid) settled(id string, count int) {
	g.Helper()
	g.until(30*time.Second, fmt.Sprintf("%s runs %d instances and its deployment is done", id, count), func() bool {
		last, _, err := g.client.Jobs().LatestDeployment(id, nil)
		done := err == nil && (last == nil || last.Status == api.DeploymentStatusSuccessful)
		return done && g.total(g.runningOn(id)) == count && len(g.allocs(id)) == count
	})
}

const webHCL = `
job "pipeline" {
  group "g" {
    count = 3
    task "gate" {
      driver = "psg"
      lifecycle {
        hook = "prestart"
      }
      config {
        labels = { class = "b" }
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }
    task "main" {
      driver = "raw_exec"
      config {
        command = "/bin/sleep"
        args    = ["3600"]
      }
      resources {
        cpu    = 100
        memory = 32
      }
    }
  }
}
`

func (g *grid) again(t *testing.T, through *api.Client, address string) {
	file := filepath.Join(t.TempDir(), "pipeline.nomad.hcl")
	if err := os.WriteFile(file, []byte(webHCL), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func() {
		if out, err := g.nomad(address, "job", "run", "-detach", file); err != nil {
			t.Fatalf("job run: %v\n%s", err, out)
		}
	}
	run()
	g.until(20*time.Second, "pipeline runs", func() bool { return g.total(g.runningOn("pipeline")) == 3 })
	allocs := g.ids("pipeline")
	for range 4 {
		run()
		if version := *g.job("pipeline").Version; version != 0 {
			t.Fatalf("the same file made version %d", version)
		}
	}
	g.steady("pipeline", 2*time.Second)
	if now := g.ids("pipeline"); !slices.Equal(now, allocs) {
		t.Errorf("allocations %v became %v", allocs, now)
	}
	g.planAgrees(t, address, file, "")
	changed := strings.Replace(webHCL, "memory = 32", "memory = 33", 1)
	if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	g.planAgrees(t, address, file, "MemoryMB")
	kept, _, err := through.Jobs().Submission("pipeline", 0, nil)
	if err != nil || kept.Source != webHCL {
		t.Errorf("source kept: %v, %v", kept, err)
	}
	group := g.job("pipeline").TaskGroups[0]
	if group.Tasks[0].LogConfig == nil || group.Tasks[0].LogConfig.Disabled == nil || !*group.Tasks[0].LogConfig.Disabled {
		t.Error("the gate has a log collector")
	}
	if *group.Update.HealthyDeadline != 30*time.Minute {
		t.Errorf("healthy_deadline is %v", *group.Update.HealthyDeadline)
	}
	g.purge("pipeline")
}

// planAgrees checks that nomad job plan through the proxy and psg job plan show
// a change of the user's, or none if it is empty, and nothing of PSG's.
func (g *grid) planAgrees(t *testing.T, address, file, change string) {
	t.Helper()
	byNomad, err := g.nomad(address, "job", "plan", file)
	if change == "" && err != nil {
		t.Errorf("nomad job plan of the same file: %v", err)
	}
	byPSG, err := g.psg("job", "plan", file)
	if change == "" && err != nil {
		t.Errorf("psg job plan of the same file: %v", err)
	}
	for who, out := range map[string]string{"nomad": byNomad, "psg": byPSG} {
		diff, _, _ := strings.Cut(out, "Nomad's dry run:") // then psg tells of placement
		if strings.Contains(diff, "+/-") != (change != "") || !strings.Contains(diff, change) {
			t.Errorf("%s job plan, want the change %q and no other:\n%s", who, change, out)
		}
		for _, ours := range []string{"psg-steer", "node.unique.id", "Spread", "Affinity", "Template", "LogConfig"} {
			if strings.Contains(diff, ours) {
				t.Errorf("%s job plan shows %s:\n%s", who, ours, out)
			}
		}
	}
}

func (g *grid) heldGang(t *testing.T, through *api.Client) {
	job := gated("proxied-gang", 4, map[string]any{"gang": true, "labels": map[string]string{"class": "b"}})
	job.TaskGroups[0].Tasks[0].Resources.CPU = new(3000)
	g.register(Pinned(sleeper("blocker", 1, 6000, 64), g.nodes[1]))
	g.until(10*time.Second, "the blocker runs", func() bool { return g.total(g.runningOn("blocker")) == 1 })
	answer, _, err := through.Jobs().Register(job, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(answer.Warnings, "wait for room") {
		t.Errorf("warnings %q do not say that it waits", answer.Warnings)
	}
	g.until(10*time.Second, "PSG queues the gang", func() bool { return g.asks("proxied-gang", psg.Queued) == 4 })
	if allocs := g.ids("proxied-gang"); len(allocs) > 0 {
		t.Fatalf("allocations %v", allocs)
	}
	g.purge("blocker")
	g.until(20*time.Second, "the gang runs", func() bool { return g.total(g.runningOn("proxied-gang")) == 4 })
	version := *g.job("proxied-gang").Version
	if _, _, err := through.Jobs().Register(job, nil); err != nil {
		t.Fatal(err)
	}
	g.steady("proxied-gang", 2*time.Second)
	if now := *g.job("proxied-gang").Version; now != version || version != 1 {
		t.Errorf("version %d became %d, want 1 and 1", version, now)
	}
	g.purge("proxied-gang")
}
