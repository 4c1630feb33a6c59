package policies

import (
	"context"
	"slices"
	"sync"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/hclspec"
)

// kept is what a class was ruled when columns alone decided, for as long as
// nothing that it comes of has changed. It holds no view: what explains it is
// made when it is asked for.
type kept struct {
	decided []*decided   // by policy; nil where nothing is decided by columns
	alone   []*aloneSaid // likewise, what reject and protect said
	rows    int
	pairs   uint64     // of workload and node that were decided
	reasons bool       // whether some have to be asked for
	ruling  psg.Ruling // without Explain
	ruled   uint64     // the table's tick when it was last handed out
}

// maxRulings bounds the classes whose last ruling is kept.
const maxRulings = 1024

// byColumns rules on a class if columns alone decide, nothing has to be asked of
// OPA, and no row is to be compared with it; else it reports false. Where nothing
// has changed it allocates next to nothing, so that a decision hardly ever has to
// help the garbage collector. The table's lock must be held.
func (s *Set) byColumns(ctx context.Context, c *class, v *view) (psg.Ruling, bool) {
	s.takeIn(ctx, v)
	if !s.bring(ctx, c, v) || !s.audit.pass(c.kept.pairs) {
		return psg.Ruling{}, false
	}
	c.kept.ruled = s.table.tick
	ruling := c.kept.ruling
	if c.kept.reasons {
		ruling.Explain = (&explanation{set: s, class: c, kept: c.kept, view: v}).explain
	}
	return ruling, true
}

// takeIn makes v the view of the table, and has whatever was ruled in the one
// before ready to be ruled again. The table's lock must be held.
func (s *Set) takeIn(ctx context.Context, v *view) {
	before := s.table.tick
	if s.table.advance(v); s.table.tick == before {
		return
	}
	for _, c := range s.keeping {
		if c != nil && c.kept != nil && c.kept.ruled == before {
			s.bring(ctx, c, v)
		}
	}
}

// bring has what is kept of a class be what it is ruled in the table's view; false
// if that is not known without asking OPA.
func (s *Set) bring(ctx context.Context, c *class, v *view) bool {
	k := &s.scratch
	k.decided, k.alone, k.rows, k.pairs = k.decided[:0], k.alone[:0], len(v.nodes), 0
	for i, p := range s.policies {
		d, said, ok := s.part(ctx, i, c, p, v)
		if !ok {
			return false
		}
		if k.decided, k.alone = append(k.decided, d), append(k.alone, said); d != nil {
			k.pairs += uint64(d.rows)
		}
	}
	if k.same(c.kept) {
		return true
	}
	next := k.rule(s, c)
	if c.kept != nil {
		next.ruled = c.kept.ruled
	}
	s.keep(c, next)
	return true
}

// part is what policy i says of a class, each part nil where it says nothing;
// false if that is not known without asking OPA.
func (s *Set) part(ctx context.Context, i int, c *class, p *policy, v *view) (d *decided, said *aloneSaid, ok bool) {
	if !c.parts[i].covered {
		return nil, nil, true
	}
	if p.unreadable(v.surroundings) != "" {
		return nil, nil, false
	}
	if p.reject != nil || p.protect != nil {
		if said = c.parts[i].alone; said == nil || !p.saysTheSame(said.around, v.surroundings) {
			return nil, nil, false
		}
	}
	if p.pair == nil {
		return nil, said, true
	}
	program := s.programOf(ctx, i, c)
	if program == nil {
		return nil, nil, false
	}
	d = program.decide(&s.table)
	return d, said, d.doubt.Count() == 0
}

// same reports whether k comes of what other came of.
func (k *kept) same(other *kept) bool {
	return other != nil && k.rows == other.rows && slices.Equal(k.decided, other.decided) && slices.Equal(k.alone, other.alone)
}

// rule is a copy of k with the ruling that comes of it.
func (k *kept) rule(s *Set, c *class) *kept {
	out := &kept{decided: slices.Clone(k.decided), alone: slices.Clone(k.alone), rows: k.rows, pairs: k.pairs}
	out.ruling.Workload = c.workload
	for i, p := range s.policies {
		if said := k.alone[i]; said != nil {
			said.addTo(&out.ruling, p, k.rows)
		}
		if d := k.decided[i]; d != nil {
			a := answer{by: p, denials: d.denials, scorings: d.scorings}
			a.addTo(&out.ruling)
			out.reasons = out.reasons || d.program.reasons
		}
	}
	return out
}

// keep replaces what is kept of a class, at the cost of the class that has been
// kept longest. The table's lock must be held.
func (s *Set) keep(c *class, k *kept) {
	if c.kept == nil && c.version != 0 {
		if old := s.keeping[s.keepNext]; old != nil {
			old.kept = nil
		}
		s.keeping[s.keepNext] = c
		s.keepNext = (s.keepNext + 1) % len(s.keeping)
	}
	c.kept = k
}

// ruledLast are workloads that were ruled on by columns in the last view or, as
// this one may just have been taken in, the one before; so many at most.
func (s *Set) ruledLast(most int) []*psg.Workload {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	var out []*psg.Workload
	for _, c := range s.keeping {
		if c != nil && c.kept != nil && c.kept.ruled+1 >= s.table.tick && len(out) < most {
			out = append(out, &c.subject)
		}
	}
	return out
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
	e.once.Do(func() { e.how = explain(e.asked()) })
	return e.how(row)
}

// asked is what Rule would have asked.
func (e *explanation) asked() []asked {
	all := make([]asked, len(e.set.policies))
	for i, p := range e.set.policies {
		a, d, said := &all[i], e.kept.decided[i], e.kept.alone[i]
		a.set, a.policy, a.view, a.workload = e.set, p, e.view, e.class.document
		if said != nil && p.spec.Mode == hclspec.Audit {
			a.rejected = said.rejected
		}
		if d != nil {
			a.outcome = outcome{program: d.program, decided: d, pairing: &a.pairing, table: e.view}
			a.answer = a.outcome.answer()
		}
	}
	return all
}
