package controller

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/psgrid/psg"
)

// always is a policy that never changes.
func always(p Policy) func() Policy { return func() Policy { return p } }

// reloading is a policy that is replaced as soon as it has ruled.
type reloading struct {
	Policy
	inForce *atomic.Pointer[Policy]
	next    Policy
}

func (r reloading) Rule(ctx context.Context, w *psg.Workload, view *psg.Snapshot) (psg.Ruling, error) {
	defer r.inForce.Store(&r.next)
	return r.Policy.Rule(ctx, w, view)
}

// denying allows every node and denies every placement.
type denying struct{ lenient }

func (denying) Sequel(*psg.Snapshot) psg.Sequel { return denying{} }

func (denying) Limits() []psg.Limit { return nil }

func (denying) Admit(context.Context, *psg.Workload, psg.Placement) ([]psg.Reason, error) {
	return []psg.Reason{{Source: "policy new", Text: "no"}}, nil
}

func TestCycle_DecidesByOneSetOfRules(t *testing.T) {
	web := workload("web", "service", 1)
	w := newWorld(t, tempLog(t), jobs{web.ID: web})
	inForce := &atomic.Pointer[Policy]{}
	w.policy = func() Policy { return *inForce.Load() }
	var first Policy = reloading{lenient{}, inForce, denying{}}
	inForce.Store(&first)
	w.report(psg.NodeChanged{Node: testNode("n1")})
	for _, alloc := range []string{"a", "b"} {
		if err := w.submit(t.Context(), []psg.Ask{gate(web, alloc, "n1")}); err != nil {
			t.Fatal(err)
		}
		w.cycle()
		// The first by the rules that ruled on it, the second denied by the new ones.
		if n := len(w.Snapshot().Placements); n != 1 {
			t.Errorf("after %s there are %d placements, want 1", alloc, n)
		}
	}
}
