package nomad_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

// TestBlind_AChildThatNomadPutsBackIsLeftToWait has Nomad favour, for a job that its
// API cannot change, the one node where policy denies it.
func TestBlind_AChildThatNomadPutsBackIsLeftToWait(t *testing.T) {
	g := use(t)
	parent := gated("parent", 1, classB())
	parent.Type, parent.Update = new(api.JobTypeBatch), nil
	parent.ParameterizedJob = &api.ParameterizedJobConfig{}
	parent.Affinities = []*api.Affinity{api.NewAffinity("${node.class}", "=", "a", 100)}
	g.register(parent)
	dispatch := func() (child string) {
		dispatched, _, err := g.client.Jobs().Dispatch("parent", nil, nil, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		return dispatched.DispatchedJobID
	}
	child := dispatch()
	stray := func() (found psg.AskStatus) {
		asks, err := g.rest.Asks(context.Background(), "", child)
		if err != nil {
			return found
		}
		for _, a := range asks {
			if a.State == psg.Elsewhere {
				found = a
			}
		}
		return found
	}
	g.until(120*time.Second, "it is told that no hint leads it", func() bool {
		if g.asks(child, psg.Running) > 0 { // Nomad did start it elsewhere
			child = dispatch()
		}
		refused := stray().Refusal
		return refused != nil && strings.Contains(refused.Summary, "no hint leads Nomad there") && strings.Contains(refused.Summary, "3 times, again at ")
	})
	out, err := g.psg("alloc", "explain", string(stray().Ask.Alloc))
	if err != nil || !strings.Contains(out, "again at ") || !strings.Contains(out, "is a child of") {
		t.Errorf("%v\n%s", err, out)
	}
	g.steady(child, 5*time.Second)
	t.Log(out)
}
