package policies

import (
	"context"
	"fmt"
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
	whole := s.viewer.of(snapshot, s.fed.Load())
	v := whole.before(w.ID, snapshot, s.bundle.Aggregates)
	s.table.mu.Lock()
	c := s.classOf(w)
	if v == whole {
		if ruling, ok := s.byColumns(ctx, c, v); ok {
			s.table.mu.Unlock()
			return ruling, nil
		}
	}
	s.table.mu.Unlock()
	before := s.memory.recall(w)
	var columns []opinions // by policy; nil while all are decided by columns
	ruling := psg.Ruling{Workload: w.ID}
	all := make([]asked, len(s.policies)) // one allocation
	for i, p := range s.policies {
		if !c.parts[i].covered {
			continue
		}
		a := &all[i]
		a.set, a.policy, a.view, a.workload = s, p, v, c.document
		s.ruleAlone(ctx, i, c, a, &ruling)
		if p.pair != nil && !s.columnar(ctx, i, c, a, whole) {
			if columns == nil {
				columns = make([]opinions, len(s.policies))
			}
			columns[i] = s.column(ctx, &a.pairing, before.column(i, p, v, &s.budget))
			if ctx.Err() == nil {
				a.answer = answerOf(p, columns[i].verdicts)
			}
		}
		if err := ctx.Err(); err != nil {
			return psg.Ruling{}, fmt.Errorf("rule on %s: %w", w.ID, err)
		}
		a.answer.addTo(&ruling)
	}
	ruling.Explain = explain(all)
	s.memory.keep(w, v, columns)
	return ruling, nil
}

// asked is one policy's part of a ruling.
type asked struct {
	pairing
	outcome  outcome // of the columns, if they decided
	answer   answer
	rejected []psg.Reason // in audit mode
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

// ruleAlone asks reject and protect, and adds what they say. What they said in
// an earlier view stands while what they read is the same.
func (s *Set) ruleAlone(ctx context.Context, i int, c *class, q *asked, ruling *psg.Ruling) {
	p := q.policy
	if p.reject == nil && p.protect == nil {
		return
	}
	s.table.mu.Lock()
	said := c.parts[i].alone
	s.table.mu.Unlock()
	if around := q.view.surroundings; said == nil || !p.saysTheSame(said.around, around) {
		input := ast.ObjectTerm(field("workload", c.document), field("now", q.view.now))
		said = &aloneSaid{around: p.aloneSees(around), rejected: q.alone(ctx, p.reject, input), protect: q.alone(ctx, p.protect, input)}
		if ctx.Err() == nil {
			s.table.mu.Lock()
			c.parts[i].alone = said
			s.table.mu.Unlock()
		}
	}
	if p.spec.Mode == hclspec.Audit {
		q.rejected = said.rejected
	}
	said.addTo(ruling, p, len(q.view.nodes))
}

// addTo adds what was said to a ruling over so many rows.
func (said *aloneSaid) addTo(ruling *psg.Ruling, p *policy, rows int) {
	if p.spec.Mode != hclspec.Audit {
		ruling.Rejected = append(ruling.Rejected, said.rejected...)
		ruling.Protected = append(ruling.Protected, said.protect...)
		return
	}
	for _, reason := range said.rejected {
		ruling.Audit = append(ruling.Audit, psg.Denial{Reason: reason, Rows: everyRow(rows)})
	}
}

// aloneSees is what reject and protect see of the surroundings.
func (p *policy) aloneSees(all *surroundings) *surroundings {
	seen := &surroundings{sources: map[string]*ast.Term{}, stale: all.stale}
	if p.alone.now {
		seen.now = all.now
	}
	if p.alone.cluster {
		seen.cluster = all.cluster
	}
	for _, name := range p.alone.sources {
		if value, ok := all.sources[name]; ok {
			seen.sources[name] = value
		}
	}
	return seen
}

// saysTheSame reports whether reject and protect say in b what they said in a.
func (p *policy) saysTheSame(a, b *surroundings) bool {
	return p.unreadable(a) == "" && p.unreadable(b) == "" && p.alone.unchanged(a, b)
}

// alone asks one rule about the workload alone; nothing when it is nil.
func (q *pairing) alone(ctx context.Context, rule *query, input *ast.Term) []psg.Reason {
	if rule == nil {
		return nil
	}
	p := q.policy
	texts := []string{p.unreadable(q.view.surroundings)}
	if texts[0] == "" {
		texts = p.sayOnce(ctx, rule, q.readable(), input)
	}
	reasons := make([]psg.Reason, len(texts))
	for i, text := range texts {
		reasons[i] = psg.Reason{Source: p.source(), Text: text}
	}
	return reasons
}

// unreadable says which data source keeps a policy from being asked; empty when
// none does.
func (p *policy) unreadable(v *surroundings) string {
	for _, name := range p.reads.sources {
		if why, ok := v.stale[name]; ok {
			return why
		}
	}
	return ""
}

func everyRow(n int) psg.Bitmap {
	rows := psg.NewBitmap(n)
	for i := range rows {
		rows[i] = ^uint64(0)
	}
	if rest := n & 63; rest != 0 {
		rows[len(rows)-1] = 1<<rest - 1
	}
	return rows
}

// verdicts are what one policy says of each row for one workload.
type verdicts []*verdict

// maxTimeouts is how many pairs of one column may time out before the rest is
// denied unasked: a policy that never ends would hold up every cycle.
const maxTimeouts = 3

// column judges all rows but those known already.
func (s *Set) column(ctx context.Context, q *pairing, known opinions) opinions {
	out := known.verdicts
	for row, of := range known.of {
		if of == nil {
			known.of[row], known.at[row] = q.view.nodes[row], q.view.at
		}
	}
	if why := q.policy.unreadable(q.view.surroundings); why != "" {
		denied := &verdict{denials: []string{why}}
		for row := range out {
			out[row] = denied
		}
		return known
	}
	q.readable()
	alikes := q.policy.alikes()
	unasked := &verdict{denials: []string{fmt.Sprintf("not evaluated: evaluation took longer than %s on %d other nodes", s.config.Timeout, maxTimeouts)}, timeout: true}
	var timeouts atomic.Int64
	s.eachRow(ctx, len(out), func(row int) {
		switch {
		case out[row] != nil:
		case timeouts.Load() >= maxTimeouts:
			out[row] = unasked
		default:
			out[row] = alikes.judge(q.view.nodes[row], func() *verdict { return q.judge(ctx, row) })
			if out[row].timeout {
				timeouts.Add(1)
			}
		}
	})
	return known
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
