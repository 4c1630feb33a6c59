package policies

import (
	"cmp"
	"context"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/psgrid/psg"
)

// columnar has policy i decide on all rows at once; nil if it has to be
// evaluated pair by pair. The view q is for may differ from the table's, v, on
// some rows: where it does, and where the columns cannot say, pairs are judged
// one by one.
func (s *Set) columnar(ctx context.Context, i int, c *class, q *pairing, v *view) *answer {
	if q.policy.unreadable(v) != "" {
		return nil
	}
	s.table.mu.Lock()
	program := s.programOf(ctx, i, c)
	if program == nil {
		s.table.mu.Unlock()
		return nil
	}
	s.table.advance(v)
	d := program.decide(&s.table)
	for row, document := range q.view.nodes {
		if q.view == v {
			break
		}
		if document != v.nodes[row] {
			mark(&d.doubt, row, len(v.nodes), true)
		}
	}
	for _, rows := range slices.Concat(d.denied, d.scored) {
		for word := range min(len(rows), len(d.doubt)) {
			rows[word] &^= d.doubt[word]
		}
	}
	scorings := program.scorings(q.policy, d)
	s.table.mu.Unlock()
	out := &outcome{program: program, decided: d, pairing: q, table: v, judged: map[int]*verdict{}}
	for row := range d.doubt.All() {
		out.judged[row] = q.judge(ctx, row)
	}
	a := out.answer(scorings)
	if !s.spotCheck(ctx, out, a) {
		return nil
	}
	return a
}

// scorings are what the clauses of score give. The table's lock must be held.
func (p *program) scorings(of *policy, d decided) []psg.Scoring {
	var out []psg.Scoring
	for i, s := range p.scores {
		if d.scored[i] == nil {
			continue
		}
		reason := psg.Reason{Source: of.source(), Text: s.reason}
		if v := s.points.points.fixed; v != nil {
			if milli, ok := milliPoints(v, s.points.weight); ok {
				out = append(out, psg.Scoring{Reason: reason, Points: milli, Rows: d.scored[i]})
			}
			continue
		}
		out = s.points.scorings(out, reason, d.scored[i])
	}
	return out
}

// outcome is what a program decided, kept to explain it.
type outcome struct {
	program *program
	decided decided
	pairing *pairing
	table   *view            // that the columns were of
	judged  map[int]*verdict // rows that were judged one by one
}

// answer puts together what was decided and what was judged.
func (o *outcome) answer(scorings []psg.Scoring) *answer {
	p, rows := o.pairing.policy, len(o.table.nodes)
	a := &answer{policy: p, scorings: scorings}
	byText := map[string]psg.Bitmap{}
	add := func(text string, set psg.Bitmap) {
		if byText[text] == nil {
			byText[text] = psg.NewBitmap(rows)
		}
		byText[text].Or(set)
	}
	for i, d := range o.program.denials {
		if o.decided.denied[i] != nil {
			add(d.text, o.decided.denied[i])
			if d.reason != nil || d.many {
				a.texts = o.texts
			}
		}
	}
	scores := map[score]psg.Bitmap{}
	for row, v := range o.judged {
		for _, text := range v.denials {
			markIn(byText, text, row, rows)
		}
		for _, s := range v.scores {
			markIn(scores, s, row, rows)
		}
	}
	for text, set := range byText {
		a.denials = append(a.denials, psg.Denial{Reason: psg.Reason{Source: p.source(), Text: text}, Rows: set})
	}
	slices.SortFunc(a.denials, func(x, y psg.Denial) int { return cmp.Compare(x.Reason.Text, y.Reason.Text) })
	for s, set := range scores {
		a.scorings = append(a.scorings, psg.Scoring{Reason: psg.Reason{Source: p.source(), Text: s.reason}, Points: s.points, Rows: set})
	}
	slices.SortStableFunc(a.scorings, func(x, y psg.Scoring) int {
		return cmp.Or(cmp.Compare(x.Reason.Text, y.Reason.Text), cmp.Compare(x.Points, y.Points))
	})
	return a
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
	q := o.pairing
	input := ast.ObjectTerm(field("workload", q.workload), field("node", q.view.nodes[row].value()), field("now", q.view.now))
	got, want := o.verdict(a, row), q.policy.judge(ctx, q.readable(), input)
	s.audit.compare(q.policy, Columnar, string(q.view.nodes[row].node.ID), got, want)
	return Tier(q.policy.tier.Load()) == Columnar
}
