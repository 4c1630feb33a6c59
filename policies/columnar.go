package policies

import (
	"cmp"
	"context"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/psgrid/psg"
)

// columnar has policy i decide on all rows at once; false if it has to be
// evaluated pair by pair. The view a is for may differ from the table's, v, on
// some rows: where it does, and where the columns cannot say, pairs are judged
// one by one.
func (s *Set) columnar(ctx context.Context, i int, c *class, a *asked, v *view) bool {
	if a.policy.unreadable(v.surroundings) != "" {
		return false
	}
	s.table.mu.Lock()
	program := s.programOf(ctx, i, c)
	if program == nil {
		s.table.mu.Unlock()
		return false
	}
	s.table.advance(v)
	d := program.decide(&s.table)
	s.table.mu.Unlock()
	if d.doubt.Count() > maxWrong {
		return false
	}
	a.outcome = outcome{program: program, decided: d, pairing: &a.pairing, table: v}
	a.outcome.judge(ctx)
	a.answer = a.outcome.answer()
	return s.spotCheck(ctx, &a.outcome, &a.answer)
}

// outcome is what a program decided, kept to explain it.
type outcome struct {
	program *program
	decided *decided
	pairing *pairing
	table   *view            // that the columns were of
	judged  map[int]*verdict // rows that were judged one by one
}

// judge judges, pair by pair, the rows that the columns say nothing of, and
// those that are not in this view as they are in the table's.
func (o *outcome) judge(ctx context.Context) {
	alone := o.decided.doubt
	if o.pairing.view != o.table {
		alone = slices.Clone(alone)
		for row, document := range o.pairing.view.nodes {
			if document != o.table.nodes[row] {
				mark(&alone, row, o.decided.rows, true)
			}
		}
	}
	for row := range alone.All() {
		if o.judged == nil {
			o.judged = map[int]*verdict{}
		}
		o.judged[row] = o.pairing.judge(ctx, row)
	}
}

// answer puts together what was decided and what was judged.
func (o *outcome) answer() answer {
	a := answer{by: o.pairing.policy, denials: o.decided.denials, scorings: o.decided.scorings}
	if o.program.reasons {
		a.says = o
	}
	if o.judged == nil {
		return a
	}
	// Rulings share what was decided: what differs is put beside it.
	a.denials, a.scorings = slices.Clone(a.denials), slices.Clone(a.scorings)
	for i := range a.denials {
		a.denials[i].Rows = without(a.denials[i].Rows, o.judged)
	}
	for i := range a.scorings {
		a.scorings[i].Rows = without(a.scorings[i].Rows, o.judged)
	}
	alone := make(verdicts, o.decided.rows)
	for row := range alone {
		alone[row] = nothing
		if v := o.judged[row]; v != nil {
			alone[row] = v
		}
	}
	extra := answerOf(o.pairing.policy, alone)
	if extra.says != nil {
		a.says = o
	}
	a.denials, a.scorings = mergeDenials(a.denials, extra.denials), append(a.scorings, extra.scorings...)
	return a
}

// mergeDenials has one denial for each text, in the order of texts.
func mergeDenials(into, extra []psg.Denial) []psg.Denial {
	for _, denial := range extra {
		same := slices.IndexFunc(into, func(other psg.Denial) bool { return other.Reason == denial.Reason })
		if same < 0 {
			into = append(into, denial)
		} else {
			into[same].Rows.Or(denial.Rows)
		}
	}
	slices.SortFunc(into, func(x, y psg.Denial) int { return cmp.Compare(x.Reason.Text, y.Reason.Text) })
	return slices.DeleteFunc(into, func(denial psg.Denial) bool { return denial.Rows.Count() == 0 })
}

func without(rows psg.Bitmap, judged map[int]*verdict) psg.Bitmap {
	out := slices.Clone(rows)
	for row := range judged {
		out.Clear(row)
	}
	return out
}

// texts are the reasons that deny a row. A clause that may give several, and
// whatever the columns cannot fill in, is OPA's to say.
func (o *outcome) texts(row int) []string {
	if v, ok := o.judged[row]; ok {
		return v.denials
	}
	var texts []string
	for i, d := range o.program.denials {
		if !o.decided.denied[i].Has(row) {
			continue
		}
		if d.many {
			return o.pairing.judge(context.Background(), row).denials
		}
		text := d.text
		if d.reason != nil {
			v, err := d.reason.eval(&viewCells{at(o.table), row})
			filled, ok := v.(ast.String)
			if err != nil || !ok {
				return o.pairing.judge(context.Background(), row).denials
			}
			text = string(filled)
		}
		texts = append(texts, text)
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

// viewCells reads a view that the table may have left.
type viewCells struct {
	moment moment
	row    int
}

func (v *viewCells) cell(c *column) (ast.Value, error) { return c.read(v.moment, v.row) }

func (v *viewCells) param(p *param) (ast.Value, error) { return p.read(v.moment) }

// verdict is what was decided on one row.
func (o *outcome) verdict(a *answer, row int) *verdict {
	v := &verdict{denials: a.why(row)}
	sums := map[string]int64{}
	for _, s := range a.scorings {
		if s.Rows.Has(row) {
			sums[s.Reason.Text] += s.Points
		}
	}
	for reason, points := range sums {
		v.scores = append(v.scores, score{reason, points})
	}
	slices.SortFunc(v.scores, score.compare)
	return v
}

// spotCheck compares one row with OPA when one is due, and reports false when
// they differ.
func (s *Set) spotCheck(ctx context.Context, o *outcome, a *answer) bool {
	rows := len(o.table.nodes)
	if rows == 0 || !s.audit.due(uint64(rows)) {
		return true
	}
	row := int(s.audit.checked.Load() * 7919 % uint64(rows))
	return s.audit.compare(o.pairing.policy, Columnar, string(o.table.nodes[row].node.ID), o.verdict(a, row), o.pairing.oracle(ctx, row))
}
