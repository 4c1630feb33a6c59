package policies

import (
	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/psgrid/psg"
)

// atom is one condition and the rows where it holds. Those that read no column
// hold everywhere or nowhere.
type atom struct {
	key    string
	deps   dependencies
	test   func(c cells) (bool, error)
	rows   psg.Bitmap
	doubt  psg.Bitmap // rows where it cannot be said: OPA is asked; nil for none
	holds  bool       // of an atom without columns
	unsure bool
	ready  bool
	brought
}

// dependencies are what an atom or vector reads.
type dependencies struct {
	columns []*column
	params  []*param
	values  []ast.Value // of params, when they were last used
}

func dependenciesOf(trees ...*tree) dependencies {
	var d dependencies
	for _, t := range trees {
		d.columns = append(d.columns, t.columns...)
		d.params = append(d.params, t.params...)
	}
	d.values = make([]ast.Value, len(d.params))
	return d
}

// ensure brings all up to date and reports whether the params have the values
// they had.
func (d *dependencies) ensure(t *table) (kept bool) {
	for _, c := range d.columns {
		c.ensure(t)
	}
	kept = true
	for i, p := range d.params {
		p.ensure(t)
		if p.err != nil || !same(d.values[i], p.value) {
			kept = false
		}
		d.values[i] = p.value
	}
	return kept
}

// rowCells reads the table.
type rowCells struct{ row int }

func (r *rowCells) cell(c *column) (ast.Value, error) {
	if len(c.wrong) > 0 {
		if err := c.wrong[r.row]; err != nil {
			return nil, err
		}
	}
	return c.value(r.row), nil
}

func (r *rowCells) param(p *param) (ast.Value, error) { return p.value, p.err }

func (a *atom) spoil() { a.ready = false }

// ensure makes the rows be those of the table's view.
func (a *atom) ensure(t *table) {
	if a.already(t) {
		return
	}
	if kept := a.deps.ensure(t); kept && a.ready {
		return
	}
	a.ready = true
	a.edits++
	at := &rowCells{}
	if len(a.deps.columns) == 0 {
		var err error
		a.holds, err = a.test(at)
		a.unsure = err != nil
		return
	}
	a.rows, a.doubt = psg.NewBitmap(t.rows()), nil
	for at.row = range t.rows() {
		a.set(at)
	}
}

func (a *atom) refresh(t *table, row int) {
	if a.ready {
		a.set(t.cellsOf(row))
	}
}

func (a *atom) set(at *rowCells) {
	holds, err := a.test(at)
	if holds != a.rows.Has(at.row) || err != nil || a.doubt != nil {
		a.edits++
	}
	if holds {
		a.rows.Set(at.row)
	} else {
		a.rows.Clear(at.row)
	}
	switch {
	case err != nil:
		if a.doubt == nil {
			a.doubt = psg.NewBitmap(64 * len(a.rows))
		}
		a.doubt.Set(at.row)
	case a.doubt != nil:
		a.doubt.Clear(at.row)
	}
}

// atom finds or makes the atom of a key.
func (t *table) atom(key string, test func(cells) (bool, error), trees []*tree) *atom {
	a, ok := t.atoms[key]
	if ok {
		return a
	}
	a = &atom{key: key, test: test, deps: dependenciesOf(trees...)}
	for _, c := range a.deps.columns {
		c.used = append(c.used, a)
	}
	t.atoms[key] = a
	return a
}
