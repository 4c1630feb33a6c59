package policies

import (
	"context"
	"fmt"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/hclspec"
)

// sequel is a psg.Sequel. Where a policy allows one training workload on a node,
// the rulings on one snapshot allow each of two; this denies the second.
type sequel struct {
	set      *Set
	snapshot *psg.Snapshot
	base     *view
	changed  map[int]*document     // by row, as the placements judged so far leave them
	totals   *totals               // likewise; nil before they are wanted
	members  map[psg.RequestID]int // rows of the members of gangs that were admitted
	judged   int
}

// Sequel begins with what a snapshot holds.
func (s *Set) Sequel(snapshot *psg.Snapshot) psg.Sequel {
	return &sequel{set: s, snapshot: snapshot, base: s.viewer.of(snapshot, s.fed.Load()), changed: map[int]*document{}, members: map[psg.RequestID]int{}}
}

// Free takes away what an ask holds, such as a reservation that is used, or what
// it was admitted to as a member of a gang.
func (q *sequel) Free(ask psg.RequestID) {
	row, ok := q.members[ask]
	if p := q.snapshot.Placements.Of(ask); !ok && p != nil {
		row, ok = q.snapshot.Row(p.Node)
	}
	if ok {
		q.change(row, func(held []resident) []resident {
			return slices.DeleteFunc(held, func(r resident) bool { return r.placement.Ask.ID == ask })
		})
	}
}

// Judged is how often policy had to be asked.
func (q *sequel) Judged() int { return q.judged }

// Admit says what denies a placement after the ones before it; none means that
// it is allowed, and it counts from then on. It asks policy only if what the
// ruling saw has changed. The error is only ever that ctx ended.
func (q *sequel) Admit(ctx context.Context, w *psg.Workload, p psg.Placement) ([]psg.Reason, error) {
	row, ok := q.snapshot.Row(p.Node)
	if !ok {
		return nil, fmt.Errorf("judge %s on node %q: %w", w.ID, p.Node, psg.ErrUnknown)
	}
	stale := q.changed[row] != nil || len(q.changed) > 0 && q.set.viewer.cluster
	// A ruling leaves a workload's own reservations out; one more must not.
	stale = stale || reservation(&p) && slices.Contains(q.base.holding.reserved[w.ID], row)
	if stale {
		reasons, err := q.judge(ctx, w, row)
		if err != nil || len(reasons) > 0 {
			return reasons, err
		}
	}
	q.change(row, func(held []resident) []resident { return append(held, resident{&p, w}) })
	if w.Gang != "" {
		q.members[p.Ask.ID] = row
	}
	return nil, nil
}

// document is a row's as it is now.
func (q *sequel) document(row int) *document {
	if d := q.changed[row]; d != nil {
		return d
	}
	return q.base.nodes[row]
}

// change replaces what is on a row.
func (q *sequel) change(row int, with func([]resident) []resident) {
	before := q.document(row)
	after := before.next(&q.snapshot.Nodes[row], with(slices.Clone(before.residents)))
	q.changed[row] = after
	if q.totals != nil {
		q.totals.count(&before.node, before.residents, -1)
		q.totals.count(&after.node, after.residents, 1)
	}
}

// cluster is data.cluster as it is now.
func (q *sequel) cluster() *ast.Term {
	if q.totals == nil {
		q.totals = totalsOf(q.snapshot, func(row int) []resident { return q.document(row).residents })
	}
	return q.totals.document()
}

// judge asks every policy that applies about one row as it is now.
func (q *sequel) judge(ctx context.Context, w *psg.Workload, row int) ([]psg.Reason, error) {
	q.judged++
	v := *q.base
	v.nodes = []*document{q.document(row)}
	if q.set.viewer.cluster {
		around := *v.surroundings
		v.surroundings = &around
		v.cluster = q.cluster()
	}
	var ruling psg.Ruling
	workload := workloadDocument(w)
	for _, policy := range q.set.policies {
		if policy.pair == nil || policy.spec.Mode == hclspec.Audit || !policy.spec.Scope.Covers(w) {
			continue
		}
		c := q.set.column(ctx, &pairing{set: q.set, policy: policy, view: &v, workload: workload}, newOpinions(1))
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("judge %s on node %q: %w", w.ID, v.nodes[0].node.ID, err)
		}
		a := answerOf(policy, c.verdicts)
		a.addTo(&ruling)
	}
	return ruling.Why(0), nil
}
