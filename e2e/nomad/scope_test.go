package nomad_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/hashicorp/nomad/api"
)

// TestScope_LeavesJobsOfOtherNamespacesAsTheyAre has controllers place jobs in one
// namespace, of which neither the command line nor the proxy has been told.
func TestScope_LeavesJobsOfOtherNamespacesAsTheyAre(t *testing.T) {
	nomadBinary(t)
	dir, err := os.MkdirTemp(shared.dir, "scope-")
	if err != nil {
		t.Fatal(err)
	}
	r, err := newRegion(dir, layout{nodes: []node{{cpu: 4000, memory: 4000, class: "b"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.end(); err != nil {
			t.Error(err)
		}
	})
	r.controller.More = append(r.controller.More, "-namespaces", "ml")
	if err := r.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	g := r.on(t)
	if _, err := g.client.Namespaces().Register(&api.Namespace{Name: "ml"}, nil); err != nil {
		t.Fatal(err)
	}
	file := cliFile(t)
	const says = `no jobs are placed in namespace "default"`
	wants(t, g.exits(1, "job", "plan", "-var", "count=1", file), says)
	wants(t, g.exits(0, "job", "run", "-var", "count=1", file), says)
	through, _ := g.proxied()
	sent := gated("other", 1, nil)
	answer, _, err := through.Jobs().Register(sent, nil)
	if err != nil {
		t.Fatal(err)
	}
	wants(t, answer.Warnings, says)
	for _, id := range []string{"cli", "other"} {
		stored := g.job(id)
		text, err := json.Marshal(stored.TaskGroups[0])
		if err != nil || len(stored.Constraints)+len(stored.TaskGroups[0].Constraints)+len(stored.TaskGroups[0].Affinities)+len(stored.TaskGroups[0].Spreads) > 0 {
			t.Errorf("%s is registered as %s, %v; want it as it was sent", id, text, err)
		}
	}
	g.settled("cli", 1) // its gate opens where Nomad starts it
	g.exits(0, "job", "run", "-namespace", "ml", "-var", "count=1", file)
	stored, _, err := g.client.Jobs().Info("cli", &api.QueryOptions{Namespace: "ml"})
	if err != nil || len(stored.TaskGroups[0].Spreads) == 0 {
		t.Errorf("in ml: %v, %+v; want it steered", err, stored)
	}
}
