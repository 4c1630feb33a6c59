package policies

import (
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/psgrid/psg/policies/closures"
)

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
			v, err := term.Value, error(nil)
			for _, name := range names[1:] {
				if v, err = closures.OfData(v, ast.StringTerm(name)); v == nil {
					return nil, err
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
