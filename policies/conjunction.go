package policies

import (
	"slices"
	"strings"

	"github.com/psgrid/psg"
)

// conjunction is the rows where all of some atoms hold. Clauses with the same
// conditions share it, whatever their class and policy.
type conjunction struct {
	atoms []*atom    // those without columns first
	rows  psg.Bitmap // nil for none; replaced, never changed: rulings hold it
	doubt psg.Bitmap // rows where some atom is in doubt; nil for none
	brought
	made uint64 // the edits of the atoms that rows are of
	of   int    // rows of the table then
}

// brought says whether something is of the table's view.
type brought struct {
	tick  uint64 // of the table, when it was brought up to date
	edits uint64 // rises with each change
}

// already reports whether it is up to date, which from now on it is.
func (b *brought) already(t *table) bool {
	if b.tick == t.tick {
		return true
	}
	b.tick = t.tick
	return false
}

func (t *table) conjunction(atoms []*atom) *conjunction {
	keys := make([]string, len(atoms))
	for i, a := range atoms {
		keys[i] = a.key
	}
	key := strings.Join(keys, "\x00")
	c, ok := t.conjunctions[key]
	if !ok {
		c = &conjunction{atoms: slices.Clone(atoms)}
		slices.SortStableFunc(c.atoms, func(x, y *atom) int { return min(1, len(x.deps.columns)) - min(1, len(y.deps.columns)) })
		t.conjunctions[key] = c
	}
	return c
}

func (c *conjunction) ensure(t *table) {
	if c.already(t) {
		return
	}
	made := uint64(1)
	for _, a := range c.atoms {
		a.ensure(t)
		made += a.edits
	}
	if made == c.made && c.of == t.rows() {
		return
	}
	c.made, c.of = made, t.rows()
	c.edits++
	c.doubt = nil
	c.rows = c.intersection(t.rows())
}

// intersection is nil where no row is left.
func (c *conjunction) intersection(n int) psg.Bitmap {
	var rows psg.Bitmap
	some := true
	for _, a := range c.atoms {
		switch {
		case len(a.deps.columns) == 0:
			if a.unsure {
				join(&c.doubt, everyRow(n))
			}
			if !a.holds {
				return nil
			}
			continue
		case a.doubt != nil:
			join(&c.doubt, a.doubt)
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

// grant is the points of a vector where a conjunction holds, for one reason.
// Clauses that are alike share it.
type grant struct {
	when   *conjunction
	points *vector
	reason psg.Reason
	brought
	made     uint64
	scorings []psg.Scoring // replaced, never changed
	doubt    psg.Bitmap    // of when, and where the points are none
}

func (t *table) grant(when *conjunction, points *vector, reason psg.Reason) *grant {
	key := grantKey{when, points, reason}
	g, ok := t.grants[key]
	if !ok {
		g = &grant{when: when, points: points, reason: reason}
		t.grants[key] = g
	}
	return g
}

type grantKey struct {
	when   *conjunction
	points *vector
	reason psg.Reason
}

func (g *grant) ensure(t *table) {
	if g.already(t) {
		return
	}
	g.when.ensure(t)
	g.points.ensure(t)
	made := 1 + g.when.edits + g.points.edits
	if made == g.made {
		return
	}
	g.made = made
	g.edits++
	g.doubt, g.scorings = g.when.doubt, nil
	rows := g.when.rows
	if rows == nil {
		return
	}
	if unknown := make(psg.Bitmap, len(g.points.doubt)); intersect(unknown, g.points.doubt, rows[:len(unknown)]) {
		g.doubt = slices.Clone(g.doubt)
		join(&g.doubt, unknown)
	}
	if milli, ok := milliPoints(g.points.points.fixed, g.points.weight); ok {
		g.scorings = []psg.Scoring{{Reason: g.reason, Points: milli, Rows: rows}}
		return
	}
	g.scorings = g.points.scorings(g.reason, rows)
}
