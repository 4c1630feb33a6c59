package policies

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/policies/closures"
)

// column is one thing that policies read of each node: a field, or what a unit
// gives. Numbers are kept as float64 too; where those are equal, the values
// decide.
type column struct {
	key    string
	from   part
	roots  roots
	read   func(m moment, row int) (ast.Value, error)
	number func(m moment, row int) float64 // reads what is measured, and so has no text before it is wanted; or nil
	values []ast.Value                     // nil where undefined; none where number is set
	floats []float64                       // NaN where the value is no number
	wrong  map[int]error
	ready  bool
	seen   *surroundings // that roots were last read from
	used   []reader

	guard *guard     // nil for none
	open  psg.Bitmap // rows where it is not shut
}

// reader is what depends on a column.
type reader interface {
	refresh(t *table, row int)
	spoil()
}

func (c *column) spoil() {
	c.ready = false
	for _, r := range c.used {
		r.spoil()
	}
}

// ensure loads the whole column if it has to.
func (c *column) ensure(t *table) {
	switch {
	case c.ready && (!c.roots.any() || c.roots.unchanged(c.seen, t.now.view.surroundings)):
		c.seen = t.now.view.surroundings
		return
	case c.ready && len(c.floats) == t.rows():
		c.reload(t)
		return
	}
	c.spoil()
	c.seen, c.ready = t.now.view.surroundings, true
	c.floats, c.wrong = make([]float64, t.rows()), map[int]error{}
	if c.number != nil {
		for row := range c.floats {
			c.floats[row] = c.number(t.now, row)
		}
		return
	}
	c.values, c.open = make([]ast.Value, t.rows()), psg.NewBitmap(t.rows())
	for row := range c.values {
		v, err := c.get(t, row)
		if c.set(row, v, err); len(c.wrong) > maxWrong {
			for ; row < len(c.values); row++ {
				c.set(row, nil, err)
			}
			return
		}
	}
}

// reload loads all that a change of the surroundings can have changed.
func (c *column) reload(t *table) {
	before, now := c.seen, t.now.view.surroundings
	c.seen = now
	if g := c.guard; g != nil && before.sources[g.source] == now.sources[g.source] {
		for row := range slices.Clone(c.open).All() {
			c.load(t, row)
		}
		return
	}
	for row := range c.floats {
		c.load(t, row)
	}
}

// get reads one cell. What a guard is shut for need not be evaluated.
func (c *column) get(t *table, row int) (ast.Value, error) {
	if c.guard != nil {
		if c.guard.shut(t.now.view, t.now.view.nodes[row]) {
			c.open.Clear(row)
			return nil, nil
		}
		c.open.Set(row)
	}
	return c.read(t.now, row)
}

// value is one cell, nil where undefined.
func (c *column) value(row int) ast.Value {
	if c.number != nil {
		return finite(c.floats[row])
	}
	return c.values[row]
}

// maxWrong is how many cells of a column may be wrong before no more of it is
// read: each may have taken long.
const maxWrong = 64

// load reads one cell again and tells who depends on it.
func (c *column) load(t *table, row int) {
	if c.number != nil {
		f, old := c.number(t.now, row), c.floats[row]
		if f == old || f != f && old != old {
			return
		}
		c.floats[row] = f
	} else {
		v, err := c.get(t, row)
		if err == nil && c.wrong[row] == nil && c.equal(row, v) {
			return
		}
		c.set(row, v, err)
	}
	for _, r := range c.used {
		r.refresh(t, row)
	}
}

// equal reports whether a cell is of a value. Most numbers that differ do so as
// float64s, which is told faster.
func (c *column) equal(row int, v ast.Value) bool {
	old := c.values[row]
	if v == nil || old == nil {
		return v == nil && old == nil
	}
	if number, ok := v.(ast.Number); ok {
		f, _ := number.Float64()
		if was := c.floats[row]; f < was || f > was {
			return false
		}
	}
	return same(v, old)
}

func (c *column) set(row int, v ast.Value, err error) {
	c.values[row], c.floats[row] = v, math.NaN()
	if number, ok := v.(ast.Number); ok {
		if f, ok := number.Float64(); ok {
			c.floats[row] = f
		}
	}
	if err != nil {
		c.wrong[row] = err
	} else if len(c.wrong) > 0 {
		delete(c.wrong, row)
	}
}

// path is the column of a field of the nodes.
func (t *table) path(names []string) *column {
	key := "input.node." + strings.Join(names, "\x00")
	c, ok := t.columns[key]
	if !ok {
		index, _ := fieldIndex(names[0])
		c = &column{key: key, from: nodeFields[index].from, read: func(m moment, row int) (ast.Value, error) {
			return m.view.nodes[row].at(index, names[1:]), nil
		}}
		if nodeFields[index].name == "telemetry" && len(names) == 3 {
			statistic := statisticIndex(names[2])
			c.number = func(m moment, row int) float64 { return measure(m.view.nodes[row].node.Telemetry, names[1], statistic) }
		}
		t.columns[key] = c
	}
	return c
}

// at is what a field holds under some keys. What is read often is found
// without making the field.
func (d *document) at(index int, keys []string) ast.Value {
	switch {
	case nodeFields[index].name == "telemetry" && len(keys) == 2:
		return finite(measure(d.node.Telemetry, keys[0], statisticIndex(keys[1])))
	case nodeFields[index].name == "attributes" && len(keys) == 1:
		return entryOf(d.node.Attributes, keys[0])
	case nodeFields[index].name == "meta" && len(keys) == 1:
		return entryOf(d.node.Meta, keys[0])
	}
	v := d.field(index).Value
	for _, key := range keys {
		if v = closures.Get(v, ast.StringTerm(key)); v == nil {
			return nil
		}
	}
	return v
}

func entryOf(m map[string]string, key string) ast.Value {
	if v, ok := m[key]; ok {
		return ast.String(v)
	}
	return nil
}

func finite(f float64) ast.Value {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil
	}
	return ast.FloatNumberTerm(f).Value
}

// unitColumn is the column of what a unit gives.
func (t *table) unitColumn(key string, u *unit, compile func() error) (*column, error) {
	c, ok := t.columns[key]
	if ok {
		return c, nil
	}
	if err := compile(); err != nil {
		return nil, err
	}
	c = &column{key: key, roots: u.roots, guard: u.guard, read: func(m moment, row int) (ast.Value, error) {
		v, err := u.eval(m.view, m.view.nodes[row], m.dataOf(u.policy))
		if err != nil {
			return nil, fmt.Errorf("row %d: %w", row, err)
		}
		return v, nil
	}}
	for _, index := range u.fields {
		c.from |= nodeFields[index].from
	}
	t.columns[key] = c
	return c, nil
}
