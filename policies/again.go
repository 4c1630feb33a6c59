package policies

import (
	"sync"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/hclspec"
)

// kept is a class's last ruling, for as long as nothing that it comes of has
// changed. It holds no view: what explains it is made when it is asked for.
type kept struct {
	decided  []*decided // by policy; nil where it was not asked, or is of the workload alone
	alone    []*aloneSaid
	ruling   psg.Ruling // without Explain
	explains bool
	pairs    uint64
}

// maxRulings bounds the classes whose last ruling is kept.
const maxRulings = 1024

// keepRuling keeps what a class was ruled, if every policy was decided by columns
// alone. The table's lock must be held.
func (s *Set) keepRuling(c *class, all []asked, ruling psg.Ruling) {
	k := &kept{ruling: ruling, explains: ruling.Explain != nil, decided: make([]*decided, len(all)), alone: make([]*aloneSaid, len(all))}
	k.ruling.Explain = nil
	for i := range all {
		a := &all[i]
		switch d := a.outcome.decided; {
		case a.policy == nil:
			continue
		case d != nil && a.outcome.judged == nil && a.view == a.outcome.table:
			k.decided[i] = d
			k.pairs += uint64(d.rows)
		case a.policy.pair != nil:
			return
		}
		k.alone[i] = c.parts[i].alone
	}
	if c.kept == nil {
		if old := s.kept[s.keptNext]; old != nil {
			old.kept = nil
		}
		s.kept[s.keptNext] = c
		s.keptNext = (s.keptNext + 1) % len(s.kept)
	}
	c.kept = k
}

// again is what a class was ruled last, if it would be ruled the same: almost
// nothing is allocated, so that a decision hardly ever has to help the garbage
// collector. The table's lock must be held.
func (s *Set) again(c *class, v *view) (psg.Ruling, bool) {
	k := c.kept
	if k == nil || !s.stands(c, k, v) || !s.audit.pass(k.pairs) {
		return psg.Ruling{}, false
	}
	ruling := k.ruling
	if k.explains {
		ruling.Explain = (&explanation{set: s, class: c, kept: k, view: v}).explain
	}
	return ruling, true
}

// stands reports whether what was ruled stands in a view.
func (s *Set) stands(c *class, k *kept, v *view) bool {
	s.table.advance(v)
	for i, p := range s.policies {
		switch said := k.alone[i]; {
		case !c.parts[i].covered:
			continue
		case p.unreadable(v.surroundings) != "":
			return false
		case said != nil && !p.saysTheSame(said.around, v.surroundings):
			return false
		}
		if p.pair == nil {
			continue
		}
		if Tier(p.tier.Load()) < Columnar || c.parts[i].program == nil || c.parts[i].program.decide(&s.table) != k.decided[i] {
			return false
		}
	}
	return true
}

// explanation explains a kept ruling in a view.
type explanation struct {
	set   *Set
	class *class
	kept  *kept
	view  *view
	once  sync.Once
	how   func(row int) (denied, audit []psg.Reason)
}

func (e *explanation) explain(row int) (denied, audit []psg.Reason) {
	e.once.Do(func() {
		all := make([]asked, len(e.set.policies))
		for i, p := range e.set.policies {
			a, d := &all[i], e.kept.decided[i]
			if said := e.kept.alone[i]; said != nil && p.spec.Mode == hclspec.Audit {
				a.policy, a.rejected = p, said.rejected
			}
			if d == nil {
				continue
			}
			a.set, a.policy, a.view, a.workload = e.set, p, e.view, e.class.document
			a.outcome = outcome{program: d.program, decided: d, pairing: &a.pairing, table: e.view}
			a.answer = a.outcome.answer()
		}
		e.how = explain(all)
	})
	return e.how(row)
}
