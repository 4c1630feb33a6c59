package policies

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/psgrid/psg"
)

// program is one policy as it stands for all workloads of a class: those that
// are alike in what the policy reads of them.
type program struct {
	policy  *policy
	denials []denying
	scores  []scoring
	reasons bool // whether some have to be asked for

	stamp uint64  // of what last was made from
	last  decided // nil before the first decision
}

// denying is one clause of deny.
type denying struct {
	when   []*atom
	text   string // the reason; or where that depends on the node, its pattern
	reason *tree  // nil for a constant one, or where the clause may give several
	many   bool   // it may give several: OPA is asked for them
}

// scoring is one clause of score.
type scoring struct {
	when   []*atom
	reason string
	points *vector
}

// program grows a policy's program for a workload. An error says why there can
// be none.
func (t *table) program(ctx context.Context, p *policy, workload *ast.Term, class string) (*program, error) {
	out := &program{policy: p}
	for i, rule := range p.partial.rules {
		left, err := p.partial.of(ctx, i, workload)
		if err != nil {
			return nil, err
		}
		g := &grower{t, left, workload, class}
		for _, clause := range left.clauses {
			if err := g.clause(out, rule, clause, p.spec.Weight); err != nil {
				return nil, err
			}
		}
	}
	return out, out.ambiguous()
}

func (g *grower) clause(to *program, rule string, c clause, weight int64) error {
	body := g.residual.flatten(c.body)
	var when []*atom
	for _, condition := range body.conditions {
		atoms, err := g.atoms(condition)
		if err != nil {
			return err
		}
		for _, a := range atoms {
			if !slices.Contains(when, a) {
				when = append(when, a)
			}
		}
	}
	many := body.touches(c.element)
	if len(body.group) > 0 {
		grown, err := g.unit(nil, body.group)
		if err != nil {
			return err
		}
		when = append(when, g.table.atom("holds "+grown.key, truthOf(grown), []*tree{grown}))
	}
	element := body.replace(c.element)
	if rule == "deny" {
		d := denying{when: when, many: many, text: pattern(element)}
		if text, ok := element.Value.(ast.String); ok {
			d.text = string(text)
		} else if !many {
			reason, err := g.term(element)
			if err != nil {
				return err
			}
			d.reason = reason
		}
		to.denials = append(to.denials, d)
		to.reasons = to.reasons || d.many || d.reason != nil
		return nil
	}
	return g.score(to, element, when, many, weight)
}

func (g *grower) score(to *program, element *ast.Term, when []*atom, many bool, weight int64) error {
	pair, ok := element.Value.(*ast.Array)
	if !ok || pair.Len() != 2 || many {
		return errors.New("a clause of score may give a row several points")
	}
	reason, ok := pair.Elem(0).Value.(ast.String)
	if !ok {
		return errors.New("a reason of score depends on the node")
	}
	points, err := g.term(pair.Elem(1))
	if err != nil {
		return err
	}
	to.scores = append(to.scores, scoring{when, string(reason), g.table.vector(points, weight)})
	return nil
}

// ambiguous refuses clauses of score with one reason, unless their points are
// different constants: where they give the same points, these count once.
func (p *program) ambiguous() error {
	for i, s := range p.scores {
		for _, other := range p.scores[:i] {
			x, y := s.points.points.fixed, other.points.points.fixed
			if s.reason == other.reason && (x == nil || y == nil || ast.Compare(x, y) == 0) {
				return fmt.Errorf("several clauses of score have the reason %q", s.reason)
			}
		}
	}
	return nil
}

// pattern is what a reason looks like before it is filled in.
func pattern(element *ast.Term) string {
	if call, ok := element.Value.(ast.Call); ok && call[0].String() == "sprintf" {
		if format, ok := call[1].Value.(ast.String); ok {
			return string(format)
		}
	}
	return "depends on the node"
}

// decided is what a program says of the rows of a view. It does not change:
// rulings share it.
type decided struct {
	rows     int
	denied   []psg.Bitmap // by clause of deny; nil where it denies nothing
	denials  []psg.Denial // by text
	scorings []psg.Scoring
	scored   []psg.Bitmap // by clause of score
	doubt    psg.Bitmap   // rows of which it says nothing; nil for none
}

// decide runs the program over the table's view: deny is the union, over its
// clauses, of the intersection of the rows where each condition holds. Where no
// condition has changed on any row, the last decision stands.
func (p *program) decide(t *table) decided {
	stamp := p.bring(t)
	if stamp == p.stamp && p.last.rows == t.rows() {
		return p.last
	}
	d := decided{rows: t.rows(), denied: make([]psg.Bitmap, len(p.denials)), scored: make([]psg.Bitmap, len(p.scores))}
	for i := range p.denials {
		d.denied[i] = conjunction(d.rows, p.denials[i].when, &d.doubt)
	}
	for i, s := range p.scores {
		d.scored[i] = conjunction(d.rows, s.when, &d.doubt)
		if rows := make(psg.Bitmap, len(s.points.doubt)); d.scored[i] != nil && intersect(rows, s.points.doubt, d.scored[i][:len(rows)]) {
			join(&d.doubt, rows)
		}
	}
	for _, rows := range slices.Concat(d.denied, d.scored) {
		for word := range min(len(rows), len(d.doubt)) {
			rows[word] &^= d.doubt[word]
		}
	}
	p.collect(&d)
	p.stamp, p.last = stamp, d
	return d
}

// bring brings all that the program reads up to date. What it returns differs
// whenever something did.
func (p *program) bring(t *table) uint64 {
	var stamp uint64 = 1
	for i := range p.denials {
		for _, a := range p.denials[i].when {
			a.ensure(t)
			stamp += a.edits
		}
	}
	for i := range p.scores {
		for _, a := range p.scores[i].when {
			a.ensure(t)
			stamp += a.edits
		}
		p.scores[i].points.ensure(t)
		stamp += p.scores[i].points.edits
	}
	return stamp
}

// collect makes denials and scorings of what was decided.
func (p *program) collect(d *decided) {
	for i, clause := range p.denials {
		if d.denied[i] == nil {
			continue
		}
		reason := psg.Reason{Source: p.policy.source(), Text: clause.text}
		same := slices.IndexFunc(d.denials, func(other psg.Denial) bool { return other.Reason == reason })
		if same < 0 {
			d.denials = append(d.denials, psg.Denial{Reason: reason, Rows: d.denied[i]})
			continue
		}
		d.denials[same].Rows = slices.Clone(d.denials[same].Rows)
		d.denials[same].Rows.Or(d.denied[i])
	}
	slices.SortFunc(d.denials, func(x, y psg.Denial) int { return cmp.Compare(x.Reason.Text, y.Reason.Text) })
	for i, s := range p.scores {
		if d.scored[i] == nil {
			continue
		}
		reason := psg.Reason{Source: p.policy.source(), Text: s.reason}
		if milli, ok := milliPoints(s.points.points.fixed, s.points.weight); ok {
			d.scorings = append(d.scorings, psg.Scoring{Reason: reason, Points: milli, Rows: d.scored[i]})
			continue
		}
		d.scorings = s.points.scorings(d.scorings, reason, d.scored[i])
	}
}

// conjunction is the rows where all atoms hold, nil for none. Rows where some
// atom is in doubt go to doubt.
func conjunction(n int, atoms []*atom, doubt *psg.Bitmap) psg.Bitmap {
	for _, a := range atoms {
		if len(a.deps.columns) > 0 {
			continue
		}
		if a.unsure {
			join(doubt, everyRow(n))
		}
		if !a.holds {
			return nil
		}
	}
	var rows psg.Bitmap
	some := true
	for _, a := range atoms {
		if len(a.deps.columns) == 0 {
			continue
		}
		if a.doubt != nil {
			join(doubt, a.doubt)
		}
		if rows == nil {
			rows = slices.Clone(a.rows)
			continue
		}
		some = intersect(rows, rows, a.rows)
	}
	switch {
	case rows == nil:
		return everyRow(n)
	case !some:
		return nil
	}
	return rows
}

func join(to *psg.Bitmap, rows psg.Bitmap) {
	if *to == nil {
		*to = make(psg.Bitmap, len(rows))
	}
	to.Or(rows)
}
