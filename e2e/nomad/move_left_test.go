package nomad_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

// TestMove_IsEndedByTheNextController kills the controller while others start for
// what is to leave a node, at moments that the shift goes through.
func TestMove_IsEndedByTheNextController(t *testing.T) {
	g := use(t)
	shifting := func() bool {
		job := g.job("web")
		return job != nil && *job.TaskGroups[0].Update.Canary > 0
	}
	for name, reached := range map[string]func(at int) bool{
		"registered": func(int) bool { return shifting() },
		"successors run": func(count int) bool {
			return shifting() && g.total(g.runningOn("web")) > count
		},
	} {
		g.Run(name, func(t *testing.T) {
			job := shiftable("web", 3)
			job.Update.MinHealthyTime = new(2 * time.Second) // for the controller to be gone before it ends
			g.register(job)
			g.settled("web", 3)
			from := g.busiest("web")
			if _, err := g.client.Nodes().ToggleEligibility(from, false, nil); err != nil {
				t.Fatal(err)
			}
			fewest := g.fewest("web", 3)
			asked := make(chan string, 1)
			go func() {
				out, err := g.psg("node", "rebalance", "-empty", "-wait", "30s", from)
				asked <- fmt.Sprint(err, "\n", out) // the controller may be gone before it answers
			}()
			g.until(60*time.Second, name, func() bool { return reached(3) })
			if err := g.controller.Stop(syscall.SIGKILL, 10*time.Second); err != nil {
				t.Log(err)
			}
			if err := g.controller.Start(context.Background()); err != nil {
				t.Fatal(err)
			}
			g.until(120*time.Second, "its shift is over", func() bool {
				on := g.runningOn("web")
				return !shifting() && on[psg.NodeID(from)] == 0 && g.total(on) == 3
			})
			t.Log(<-asked)
			if least := fewest(); least < 3 {
				t.Errorf("only %d instances ran, want never fewer than 3", least)
			}
			g.until(60*time.Second, "nothing moves, and no room is held", func() bool {
				asks, err := g.rest.Asks(context.Background(), "", "web")
				standing := 0
				for _, a := range asks {
					if a.State == psg.Moving || a.Placement != nil && a.Ask.Alloc == "" {
						return false
					}
					if a.Placement != nil {
						standing++
					}
				}
				return err == nil && standing == 3
			})
			if u := g.job("web").TaskGroups[0].Update; *u.Canary != 0 || *u.AutoPromote {
				t.Errorf("the update block is left with canary %d, auto_promote %t", *u.Canary, *u.AutoPromote)
			}
			if last, _, err := g.client.Jobs().LatestDeployment("web", nil); err != nil || last.Status == api.DeploymentStatusFailed {
				t.Errorf("deployment %+v, %v", last, err)
			}
			if _, err := g.client.Nodes().ToggleEligibility(from, true, nil); err != nil {
				t.Fatal(err)
			}
			g.purge("web")
		})
	}
}
