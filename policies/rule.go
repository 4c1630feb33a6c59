package policies

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/hclspec"
)

// Rule says what policy says of a workload on every node of a snapshot, which
// must be sorted and must not change afterwards. Each node is judged as it is,
// before the workload joins it; a workload that is in the snapshot already is
// judged no differently, but that its own reservations, which it would take up,
// do not count. Where several placements follow from one ruling, Sequel judges
// the later ones.
//
// Reasons come in the order of the policies in the bundle, then of their text.
// Policies in audit mode only add to Audit: what they deny, and what they
// reject as denied everywhere. The error is only ever that ctx ended: whatever
// goes wrong in a policy is a denial.
func (s *Set) Rule(ctx context.Context, w *psg.Workload, snapshot *psg.Snapshot) (psg.Ruling, error) {
	v := s.viewer.of(snapshot, s.fed.Load()).before(w.ID, snapshot, s.bundle.Aggregates)
	workload := workloadDocument(w)
	alone := ast.ObjectTerm(field("workload", workload), field("now", v.now))
	before := s.memory.recall(w)
	columns := make([]column, len(s.policies))
	ruling := psg.Ruling{Workload: w.ID}
	for i, p := range s.policies {
		if err := ctx.Err(); err != nil {
			return psg.Ruling{}, fmt.Errorf("rule on %s: %w", w.ID, err)
		}
		if !p.spec.Scope.Covers(w) {
			continue
		}
		b := p.base(v, s.config.Timeout)
		p.ruleAlone(ctx, &ruling, b, v, alone)
		if p.pair == nil {
			continue
		}
		columns[i] = s.column(ctx, p, b, v, workload, before.column(i, p, v))
		if err := ctx.Err(); err != nil {
			return psg.Ruling{}, fmt.Errorf("rule on %s: %w", w.ID, err)
		}
		collect(&ruling, p, columns[i])
	}
	s.memory.keep(w, v, columns)
	return ruling, nil
}

// RuleAll rules on several workloads, in their order: one cycle's worth.
func (s *Set) RuleAll(ctx context.Context, workloads []*psg.Workload, snapshot *psg.Snapshot) ([]psg.Ruling, error) {
	rulings := make([]psg.Ruling, len(workloads))
	for i, w := range workloads {
		ruling, err := s.Rule(ctx, w, snapshot)
		if err != nil {
			return nil, err
		}
		rulings[i] = ruling
	}
	return rulings, nil
}

// ruleAlone asks reject and protect, and adds what they say.
func (p *policy) ruleAlone(ctx context.Context, ruling *psg.Ruling, b base, v *view, input *ast.Term) {
	if p.reject != nil {
		for _, reason := range p.sayAlone(ctx, p.reject, b, v, input) {
			if p.spec.Mode == hclspec.Audit {
				ruling.Audit = append(ruling.Audit, psg.Denial{Reason: reason, Rows: everyRow(len(v.nodes))})
			} else {
				ruling.Rejected = append(ruling.Rejected, reason)
			}
		}
	}
	if p.protect != nil && p.spec.Mode != hclspec.Audit {
		ruling.Protected = append(ruling.Protected, p.sayAlone(ctx, p.protect, b, v, input)...)
	}
}

func (p *policy) sayAlone(ctx context.Context, q *query, b base, v *view, input *ast.Term) []psg.Reason {
	texts := []string{p.unreadable(v)}
	if texts[0] == "" {
		texts = p.sayOnce(ctx, q, b, input)
	}
	reasons := make([]psg.Reason, len(texts))
	for i, text := range texts {
		reasons[i] = psg.Reason{Source: p.source(), Text: text}
	}
	return reasons
}

// unreadable says which data source keeps a policy from being asked; empty when
// none does.
func (p *policy) unreadable(v *view) string {
	for _, name := range p.reads.sources {
		if why, ok := v.stale[name]; ok {
			return why
		}
	}
	return ""
}

func everyRow(n int) psg.Bitmap {
	rows := psg.NewBitmap(n)
	for row := range n {
		rows.Set(row)
	}
	return rows
}

// column is one policy's verdict on each row for one workload.
type column []*verdict

// maxTimeouts is how many pairs of one column may time out before the rest is
// denied unasked: a policy that never ends would hold up every cycle.
const maxTimeouts = 3

// column judges all rows but those known already.
func (s *Set) column(ctx context.Context, p *policy, b base, v *view, workload *ast.Term, known column) column {
	out := make(column, len(v.nodes))
	if why := p.unreadable(v); why != "" {
		denied := &verdict{denials: []string{why}}
		for row := range out {
			out[row] = denied
		}
		return out
	}
	copy(out, known)
	unasked := &verdict{denials: []string{fmt.Sprintf("not evaluated: evaluation took longer than %s on %d other nodes", b.timeout, maxTimeouts)}, timeout: true}
	var timeouts atomic.Int64
	s.eachRow(ctx, len(out), func(row int) {
		switch {
		case out[row] != nil:
		case timeouts.Load() >= maxTimeouts:
			out[row] = unasked
		default:
			input := ast.ObjectTerm(field("workload", workload), field("node", v.nodes[row].value()), field("now", v.now))
			out[row] = p.judge(ctx, b, input)
			if out[row].timeout {
				timeouts.Add(1)
			}
		}
	})
	return out
}

// eachRow calls judge for every row, on as many goroutines as the Config
// allows, and returns when all have ended; early when ctx ends.
func (s *Set) eachRow(ctx context.Context, rows int, judge func(row int)) {
	const batch = 16
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(s.config.Workers, (rows+batch-1)/batch) {
		workers.Go(func() {
			for ctx.Err() == nil {
				end := int(next.Add(batch))
				if end-batch >= rows {
					return
				}
				for row := end - batch; row < min(end, rows) && ctx.Err() == nil; row++ {
					judge(row)
				}
			}
		})
	}
	workers.Wait()
}

// collect adds one policy's column to a ruling: one entry for each distinct
// reason, in the order of their text.
func collect(ruling *psg.Ruling, p *policy, c column) {
	denials, scorings := map[string]psg.Bitmap{}, map[score]psg.Bitmap{}
	for row, v := range c {
		for _, reason := range v.denials {
			mark(denials, reason, row, len(c))
		}
		for _, s := range v.scores {
			mark(scorings, s, row, len(c))
		}
	}
	to := &ruling.Denials
	if p.spec.Mode == hclspec.Audit {
		to = &ruling.Audit
		scorings = nil
	}
	for _, reason := range slices.Sorted(maps.Keys(denials)) {
		*to = append(*to, psg.Denial{Reason: psg.Reason{Source: p.source(), Text: reason}, Rows: denials[reason]})
	}
	for _, s := range slices.SortedFunc(maps.Keys(scorings), score.compare) {
		ruling.Scorings = append(ruling.Scorings, psg.Scoring{Reason: psg.Reason{Source: p.source(), Text: s.reason}, Points: s.points, Rows: scorings[s]})
	}
}

func mark[K comparable](rows map[K]psg.Bitmap, key K, row, n int) {
	bitmap, ok := rows[key]
	if !ok {
		bitmap = psg.NewBitmap(n)
		rows[key] = bitmap
	}
	bitmap.Set(row)
}
