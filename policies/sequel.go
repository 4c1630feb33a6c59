package policies

import (
	"context"
	"fmt"
	"slices"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/hclspec"
)

// sequel is a psg.Sequel. Where a policy allows one training workload on a node,
// the rulings on one snapshot allow each of two; this denies the second.
type sequel struct {
	set      *Set
	snapshot *psg.Snapshot
	base     *view
	// residents by row, as the placements judged so far leave them. Nil, for
	// those of base, until there is a change.
	residents [][]resident
	changed   map[int]bool
	judged    int
}

// Sequel begins with what a snapshot holds.
func (s *Set) Sequel(snapshot *psg.Snapshot) psg.Sequel {
	return &sequel{set: s, snapshot: snapshot, base: s.viewer.of(snapshot, s.fed.Load()), changed: map[int]bool{}}
}

// Free takes away what an ask holds, such as a reservation that is used.
func (q *sequel) Free(ask psg.RequestID) {
	for i := range q.snapshot.Placements {
		p := &q.snapshot.Placements[i]
		if row, ok := q.snapshot.Row(p.Node); ok && p.Ask.ID == ask {
			q.change(row, func(held []resident) []resident {
				return slices.DeleteFunc(held, func(r resident) bool { return r.placement.Ask.ID == ask })
			})
			return
		}
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
	stale := q.changed[row] || len(q.changed) > 0 && q.set.viewer.cluster
	// A ruling leaves a workload's own reservations out; one more must not.
	stale = stale || reservation(&p) && slices.Contains(q.base.holding.reserved[w.ID], row)
	if stale {
		reasons, err := q.judge(ctx, w, row)
		if err != nil || len(reasons) > 0 {
			return reasons, err
		}
	}
	q.change(row, func(held []resident) []resident { return append(held, resident{&p, w}) })
	return nil, nil
}

// change replaces what is on a row.
func (q *sequel) change(row int, with func([]resident) []resident) {
	if q.residents == nil {
		q.residents = slices.Clone(q.base.holding.residents)
	}
	q.residents[row] = with(slices.Clone(q.residents[row]))
	q.changed[row] = true
}

// judge asks every policy that applies about one row as it is now.
func (q *sequel) judge(ctx context.Context, w *psg.Workload, row int) ([]psg.Reason, error) {
	q.judged++
	node := &q.snapshot.Nodes[row]
	residents := q.residents
	if residents == nil {
		residents = q.base.holding.residents
	}
	v := *q.base
	v.nodes = []*document{newDocument(node, residents[row], q.set.bundle.Aggregates)}
	if q.set.viewer.cluster {
		around := *v.surroundings
		v.surroundings = &around
		v.cluster = clusterDocument(q.snapshot, residents)
	}
	var ruling psg.Ruling
	workload := workloadDocument(w)
	for _, policy := range q.set.policies {
		if policy.pair == nil || policy.spec.Mode == hclspec.Audit || !policy.spec.Scope.Covers(w) {
			continue
		}
		c := q.set.column(ctx, &pairing{set: q.set, policy: policy, view: &v, workload: workload}, nil)
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("judge %s on node %q: %w", w.ID, node.ID, err)
		}
		answerOf(policy, c).addTo(&ruling)
	}
	return ruling.Why(0), nil
}
