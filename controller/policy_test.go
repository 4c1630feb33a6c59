package controller

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/ledger"
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
		if n := w.Snapshot().Placements.Len(); n != 1 {
			t.Errorf("after %s there are %d placements, want 1", alloc, n)
		}
	}
}

// auditing allows everything and would deny it, were it enforced.
type auditing struct{ lenient }

func (auditing) Rule(_ context.Context, w *psg.Workload, view *psg.Snapshot) (psg.Ruling, error) {
	rows := psg.NewBitmap(len(view.Nodes))
	rows.Set(0)
	return psg.Ruling{Workload: w.ID, Audit: []psg.Denial{{Reason: psg.Reason{Source: "policy new", Text: "no"}, Rows: rows}}}, nil
}

func TestCycle_RecordsWhatPoliciesInAuditModeWouldHaveDenied(t *testing.T) {
	web := workload("web", "service", 1)
	log := tempLog(t)
	w := newWorld(t, log, jobs{web.ID: web})
	w.policy = always(auditing{})
	w.report(psg.NodeChanged{Node: testNode("n1")})
	if err := w.submit(t.Context(), []psg.Ask{gate(web, "a", "n1")}); err != nil {
		t.Fatal(err)
	}
	w.cycle()
	placements := slices.Collect(w.Snapshot().Placements.All())
	if len(placements) != 1 || len(placements[0].Audit) != 1 || placements[0].Audit[0].Text != "no" {
		t.Fatalf("placements %+v", placements)
	}
	told := ""
	if err := log.Replay(t.Context(), 0, func(r psg.Record) error {
		for _, entry := range ledger.Audit(r) {
			if entry.Kind == psg.AuditPlaced {
				told = entry.Reason
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if told != "audit, would be denied: policy new: no" {
		t.Errorf("audited as %q", told)
	}
}
