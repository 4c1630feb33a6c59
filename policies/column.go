package policies

import (
	"fmt"
	"math"
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
	values []ast.Value // nil where undefined
	floats []float64   // NaN where the value is no number
	wrong  map[int]error
	ready  bool
	seen   *surroundings // that roots were last read from
	used   []reader
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
	case c.ready && len(c.values) == t.rows():
		c.seen = t.now.view.surroundings
		for row := range c.values {
			c.load(t, row)
		}
		return
	}
	c.spoil()
	c.values, c.floats, c.wrong = make([]ast.Value, t.rows()), make([]float64, t.rows()), map[int]error{}
	c.seen, c.ready = t.now.view.surroundings, true
	for row := range c.values {
		v, err := c.read(t.now, row)
		if c.set(row, v, err); len(c.wrong) > maxWrong {
			for ; row < len(c.values); row++ {
				c.set(row, nil, err)
			}
			return
		}
	}
}

// maxWrong is how many cells of a column may be wrong before no more of it is
// read: each may have taken long.
const maxWrong = 64

// load reads one cell again and tells who depends on it.
func (c *column) load(t *table, row int) {
	v, err := c.read(t.now, row)
	if err == nil && c.wrong[row] == nil && c.equal(row, v) {
		return
	}
	c.set(row, v, err)
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
	return ast.Compare(v, old) == 0
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
		t.columns[key] = c
	}
	return c
}

// at is what a field holds under some keys. What is read often is found
// without making the field.
func (d *document) at(index int, keys []string) ast.Value {
	switch {
	case nodeFields[index].name == "telemetry" && len(keys) == 2:
		return statistic(d.node.Telemetry, keys[0], keys[1])
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

func statistic(t *psg.Telemetry, metric, name string) ast.Value {
	if t == nil {
		return nil
	}
	if stats, ok := t.Metrics[metric]; ok {
		for i, known := range statistics() {
			if known == name {
				return finite(statisticValues(stats)[i])
			}
		}
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
	c = &column{key: key, roots: u.roots, read: func(m moment, row int) (ast.Value, error) {
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

// param is something that conditions read and that no node bears on: the time,
// data, what a unit makes of them. Each view has one value of it.
type param struct {
	key   string
	roots roots
	read  func(m moment) (ast.Value, error)
	value ast.Value
	err   error
	seen  *surroundings
}

func (p *param) ensure(t *table) {
	if p.seen == t.now.view.surroundings {
		return
	}
	if p.seen == nil || !p.roots.unchanged(p.seen, t.now.view.surroundings) {
		p.value, p.err = p.read(t.now)
	}
	p.seen = t.now.view.surroundings
}

func (t *table) paramOf(key string, make func() *param) *param {
	p, ok := t.params[key]
	if !ok {
		p = make()
		p.key = key
		t.params[key] = p
	}
	return p
}

func (t *table) timeParam() *param {
	return t.paramOf("input.now", func() *param {
		return &param{roots: roots{now: true}, read: func(m moment) (ast.Value, error) { return m.view.now.Value, nil }}
	})
}

// dataParam is a part of the cluster's totals or of a source.
func (t *table) dataParam(names []string) *param {
	return t.paramOf("data."+strings.Join(names, "\x00"), func() *param {
		from := roots{sources: names[:1]}
		if names[0] == "cluster" {
			from = roots{cluster: true}
		}
		return &param{roots: from, read: func(m moment) (ast.Value, error) {
			term := m.view.sources[names[0]]
			if from.cluster {
				term = m.view.cluster
			}
			if term == nil {
				return nil, nil
			}
			v := term.Value
			for _, name := range names[1:] {
				if v = closures.Get(v, ast.StringTerm(name)); v == nil {
					return nil, nil
				}
			}
			return v, nil
		}}
	})
}

func (t *table) unitParam(key string, u *unit, compile func() error) (*param, error) {
	if p, ok := t.params[key]; ok {
		return p, nil
	}
	if err := compile(); err != nil {
		return nil, err
	}
	return t.paramOf(key, func() *param {
		return &param{roots: u.roots, read: func(m moment) (ast.Value, error) { return u.eval(m.view, nil, m.dataOf(u.policy)) }}
	}), nil
}
