package policies

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/hclspec"
)

// answer is what one policy says of all rows; the zero answer is that of none.
type answer struct {
	by       *policy
	denials  []psg.Denial
	scorings []psg.Scoring
	says     interface{ texts(row int) []string } // reasons of a row, sorted; nil where denials hold them all
}

func (v verdicts) texts(row int) []string { return v[row].denials }

// addTo adds the answer to a ruling.
func (a *answer) addTo(ruling *psg.Ruling) {
	if a.by != nil && a.by.spec.Mode == hclspec.Audit {
		ruling.Audit = append(ruling.Audit, a.denials...)
		return
	}
	ruling.Denials = joined(ruling.Denials, a.denials)
	ruling.Scorings = joined(ruling.Scorings, a.scorings)
}

// joined is one list of two, which may be shared: neither is written to.
func joined[T any](a, b []T) []T {
	if len(a) == 0 && len(b) > 0 {
		return slices.Clip(b)
	}
	return append(a, b...)
}

// why are the texts of a row.
func (a *answer) why(row int) []string {
	if a.says != nil {
		return a.says.texts(row)
	}
	var texts []string
	for _, denial := range a.denials {
		if denial.Rows.Has(row) {
			texts = append(texts, denial.Reason.Text)
		}
	}
	return texts
}

// explain is the ruling's Explain; nil where its denials hold all reasons.
// Rejections in audit mode deny every row, before what the policy denies.
func explain(all []asked) func(int) (denied, audit []psg.Reason) {
	asks := false
	for i := range all {
		asks = asks || all[i].answer.says != nil
	}
	if !asks {
		return nil
	}
	return func(row int) (denied, audit []psg.Reason) {
		for i := range all {
			a := &all[i]
			audit = append(audit, a.rejected...)
			to := &denied
			if a.policy != nil && a.policy.spec.Mode == hclspec.Audit {
				to = &audit
			}
			for _, text := range a.answer.why(row) {
				*to = append(*to, psg.Reason{Source: a.policy.source(), Text: text})
			}
		}
		return denied, audit
	}
}

// pairing is a workload about to be judged on the rows of a view.
type pairing struct {
	set      *Set
	policy   *policy
	view     *view
	workload *ast.Term

	once sync.Once
	base base // what readable gives
}

// readable is the data that the policy reads in the view.
func (q *pairing) readable() base {
	q.once.Do(func() { q.base = q.policy.base(q.view, q.set.config.Timeout) })
	return q.base
}

// judge judges one row: by closures if the policy is compiled, else by OPA.
func (q *pairing) judge(ctx context.Context, row int) *verdict {
	p := q.policy
	if p.fast == nil || Tier(p.tier.Load()) < Compiled {
		return q.oracle(ctx, row)
	}
	got := p.fast.judge(p, q.readable(), q.input(row).Value)
	if got == nil {
		return q.oracle(ctx, row)
	}
	if q.set.audit.due(1) {
		want := q.oracle(ctx, row)
		q.set.audit.compare(p, Compiled, string(q.view.nodes[row].node.ID), got, want)
		return want
	}
	return got
}

// oracle has OPA judge one row.
func (q *pairing) oracle(ctx context.Context, row int) *verdict {
	return q.policy.judge(ctx, q.readable(), q.input(row))
}

func (q *pairing) input(row int) *ast.Term {
	return ast.ObjectTerm(field("workload", q.workload), field("node", q.view.nodes[row].value()), field("now", q.view.now))
}

// maxReasons is how many distinct reasons of one policy a ruling holds; beyond,
// it holds the rows and is asked for the reasons.
const maxReasons = 64

// answerOf turns verdicts into an answer: one denial for each distinct reason,
// in the order of their text.
func answerOf(p *policy, c verdicts) answer {
	a := answer{by: p}
	denials, scorings := map[string]psg.Bitmap{}, map[score]psg.Bitmap{}
	for row, v := range c {
		for _, reason := range v.denials {
			markIn(denials, reason, row, len(c))
		}
		for _, s := range v.scores {
			markIn(scorings, s, row, len(c))
		}
	}
	for _, s := range slices.SortedFunc(maps.Keys(scorings), score.compare) {
		a.scorings = append(a.scorings, psg.Scoring{Reason: psg.Reason{Source: p.source(), Text: s.reason}, Points: s.points, Rows: scorings[s]})
	}
	for _, reason := range slices.Sorted(maps.Keys(denials)) {
		a.denials = append(a.denials, psg.Denial{Reason: psg.Reason{Source: p.source(), Text: reason}, Rows: denials[reason]})
	}
	if len(a.denials) > maxReasons {
		all := psg.NewBitmap(len(c))
		for _, denial := range a.denials {
			all.Or(denial.Rows)
		}
		a.denials = []psg.Denial{{Reason: psg.Reason{Source: p.source(), Text: dependsOnNode}, Rows: all}}
		a.says = c
	}
	return a
}

// dependsOnNode stands for reasons that are made when they are asked for.
const dependsOnNode = "depends on the node"

func markIn[K comparable](rows map[K]psg.Bitmap, key K, row, n int) {
	bitmap, ok := rows[key]
	if !ok {
		bitmap = psg.NewBitmap(n)
		rows[key] = bitmap
	}
	bitmap.Set(row)
}
