package policies

import (
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
	denials []denying
	scores  []scoring
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
	out := &program{}
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

// ambiguous refuses clauses of score with one reason: where they give the same
// points, these count once.
func (p *program) ambiguous() error {
	for i, s := range p.scores {
		for _, other := range p.scores[:i] {
			if s.reason == other.reason {
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

// decided is what a program says of the rows of a view.
type decided struct {
	denied []psg.Bitmap // by clause of deny; nil where it denies nothing
	scored []psg.Bitmap // by clause of score
	doubt  psg.Bitmap   // rows of which it says nothing; nil for none
}

// decide runs the program over the table's view.
func (p *program) decide(t *table) decided {
	d := decided{make([]psg.Bitmap, len(p.denials)), make([]psg.Bitmap, len(p.scores)), nil}
	for i := range p.denials {
		d.denied[i] = conjunction(t, p.denials[i].when, &d.doubt)
	}
	for i := range p.scores {
		if d.scored[i] = conjunction(t, p.scores[i].when, &d.doubt); d.scored[i] != nil {
			n := p.scores[i].points
			n.ensure(t)
			if n.doubt != nil {
				if rows := intersection(n.doubt, d.scored[i]); rows != nil {
					join(&d.doubt, rows)
				}
			}
		}
	}
	return d
}

// conjunction is the rows where all atoms hold, nil for none. Rows where some
// atom is in doubt go to doubt.
func conjunction(t *table, atoms []*atom, doubt *psg.Bitmap) psg.Bitmap {
	for _, a := range atoms {
		if len(a.deps.columns) > 0 {
			continue
		}
		if a.ensure(t); a.unsure {
			join(doubt, everyRow(t.rows()))
		}
		if !a.holds {
			return nil
		}
	}
	rows := everyRow(t.rows())
	for _, a := range atoms {
		if len(a.deps.columns) == 0 {
			continue
		}
		a.ensure(t)
		if a.doubt != nil {
			join(doubt, a.doubt)
		}
		for i := range rows {
			rows[i] &= a.rows[i]
		}
	}
	for _, word := range rows {
		if word != 0 {
			return rows
		}
	}
	return nil
}

func join(to *psg.Bitmap, rows psg.Bitmap) {
	if *to == nil {
		*to = make(psg.Bitmap, len(rows))
	}
	to.Or(rows)
}
