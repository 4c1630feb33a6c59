package nomad_test

import (
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

// TestDeployment_OfCanariesAtTheWrongGate has Nomad start canaries where policy
// denies them: nothing of them runs yet, and the deployment waits for PSG.
func TestDeployment_OfCanariesAtTheWrongGate(t *testing.T) {
	g := use(t)
	g.register(gated("web", 2, classB()))
	g.settled("web", 2)
	next := gated("web", 2, classB())
	next.TaskGroups[0].Tasks[0].Env = map[string]string{"V": "2"}
	next.Update.Canary, next.Update.AutoPromote = new(1), new(true)
	least := g.fewest("web", 2)
	g.register(next)
	g.until(60*time.Second, "a deployment of the next version succeeds", func() bool {
		last, _, err := g.client.Jobs().LatestDeployment("web", nil)
		return err == nil && last != nil && last.Status == api.DeploymentStatusSuccessful && last.JobVersion == *g.job("web").Version
	})
	all, _, err := g.client.Jobs().Deployments("web", false, nil)
	if err != nil {
		t.Fatal(err)
	}
	// Which of them it is depends on where Nomad starts what follows the canary: it may
	// be steered too, by a version that finds the canary promoted.
	if !slices.ContainsFunc(all, func(d *api.Deployment) bool { return d.TaskGroups["g"].Promoted }) {
		t.Error("no canary was promoted")
	}
	g.settled("web", 2)
	if on := g.runningOn("web"); on[psg.NodeID(g.nodes[0])] > 0 {
		t.Errorf("web runs on %v", g.short(on))
	}
	if n := least(); n < 1 {
		t.Error("none ran meanwhile: one is replaced at a time")
	}
}
