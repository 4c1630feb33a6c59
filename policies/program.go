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
	scores  []*grant
	reasons bool // whether some have to be asked for

	brought
	made uint64   // the edits of what last was made from
	last *decided // nil before the first decision
}

// denying is one clause of deny.
type denying struct {
	when   *conjunction
	text   string // the reason; or where that depends on the node, its pattern
	reason *tree  // nil for a constant one, or where the clause may give several
	many   bool   // it may give several: OPA is asked for them
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
		d := denying{when: g.table.conjunction(when), many: many, text: pattern(element)}
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
	from := psg.Reason{Source: to.policy.source(), Text: string(reason)}
	to.scores = append(to.scores, g.table.grant(g.table.conjunction(when), g.table.vector(points, weight), from))
	return nil
}

// ambiguous refuses clauses of score with one reason, unless their points are
// different constants: where they give the same points, these count once.
func (p *program) ambiguous() error {
	for i, s := range p.scores {
		for _, other := range p.scores[:i] {
			x, y := s.points.points.fixed, other.points.points.fixed
			if s.reason == other.reason && (x == nil || y == nil || ast.Compare(x, y) == 0) {
				return fmt.Errorf("several clauses of score have the reason %q", s.reason.Text)
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
	program  *program
	rows     int
	denied   []psg.Bitmap // by clause of deny; nil where it denies nothing
	denials  []psg.Denial // by text
	scorings []psg.Scoring
	doubt    psg.Bitmap // rows of which it says nothing; nil for none
}

// decide runs the program over the table's view: deny is the union, over its
// clauses, of the intersection of the rows where each condition holds. Where no
// condition has changed on any row, the last decision stands.
func (p *program) decide(t *table) *decided {
	if p.already(t) {
		return p.last
	}
	made := p.bring(t)
	if made == p.made && p.last.rows == t.rows() {
		return p.last
	}
	d := &decided{program: p, rows: t.rows(), denied: make([]psg.Bitmap, len(p.denials))}
	for i := range p.denials {
		d.denied[i] = p.denials[i].when.rows
		if doubt := p.denials[i].when.doubt; doubt != nil {
			join(&d.doubt, doubt)
		}
	}
	for _, g := range p.scores {
		if g.doubt != nil {
			join(&d.doubt, g.doubt)
		}
	}
	p.collect(d)
	p.made, p.last = made, d
	return d
}

// bring brings all that the program reads up to date. What it returns differs
// whenever something did.
func (p *program) bring(t *table) (made uint64) {
	made = 1
	for i := range p.denials {
		p.denials[i].when.ensure(t)
		made += p.denials[i].when.edits
	}
	for _, g := range p.scores {
		g.ensure(t)
		made += g.edits
	}
	return made
}

// collect makes denials and scorings of what was decided, less the rows in
// doubt.
func (p *program) collect(d *decided) {
	for i, clause := range p.denials {
		d.denied[i] = outside(d.denied[i], d.doubt)
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
	for _, g := range p.scores {
		d.scorings = joined(d.scorings, g.scorings)
	}
	if d.doubt != nil {
		d.scorings = slices.Clone(d.scorings)
		for i := range d.scorings {
			d.scorings[i].Rows = outside(d.scorings[i].Rows, d.doubt)
		}
	}
}

// outside is some rows without others.
func outside(rows, others psg.Bitmap) psg.Bitmap {
	if rows == nil || others == nil {
		return rows
	}
	rows = slices.Clone(rows)
	for i := range rows {
		rows[i] &^= others[i]
	}
	return rows
}
