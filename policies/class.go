package policies

import (
	"context"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/policies/closures"
)

// class is what a set has worked out of one version of a workload.
type class struct {
	workload psg.WorkloadID
	subject  psg.Workload // a copy
	version  uint64
	document *ast.Term
	parts    []classPart // by policy
	kept     *kept       // nil for none
}

type classPart struct {
	covered bool     // by the policy's scope
	program *program // nil where there is none
	tried   bool
	alone   *aloneSaid
}

// aloneSaid is what reject and protect said, and what of the surroundings they
// read: no more of it is kept alive.
type aloneSaid struct {
	around            *surroundings
	rejected, protect []psg.Reason
}

// maxClasses bounds the workloads that are remembered so.
const maxClasses = 8192

// classOf finds or makes the class of a workload. A version of 0 promises
// nothing. The table's lock must be held.
func (s *Set) classOf(w *psg.Workload) *class {
	if c, ok := s.classes[w.ID]; ok && c.version == w.Version && w.Version != 0 {
		return c
	}
	c := &class{workload: w.ID, subject: *w, version: w.Version, document: workloadDocument(w), parts: make([]classPart, len(s.policies))}
	for i, p := range s.policies {
		c.parts[i].covered = p.spec.Scope.Covers(w)
	}
	if w.Version != 0 {
		if len(s.classes) >= maxClasses {
			clear(s.classes)
		}
		s.classes[w.ID] = c
	}
	return c
}

// programOf is the program of policy i for a class, nil if the policy has to be
// evaluated pair by pair. The table's lock must be held.
func (s *Set) programOf(ctx context.Context, i int, c *class) *program {
	p, part := s.policies[i], &c.parts[i]
	if p.partial == nil || Tier(p.tier.Load()) < Columnar {
		return nil
	}
	if part.tried {
		return part.program
	}
	key := p.class(c.document)
	grown, known := s.table.programs[key]
	if !known {
		s.table.trim(s)
		var err error
		if grown, err = s.table.program(ctx, p, c.document, key); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			grown = nil
			s.note(p, err)
		}
		s.table.programs[key] = grown
	}
	part.program, part.tried = grown, true
	return grown
}

// note logs why a class of workloads is not decided by columns.
func (s *Set) note(p *policy, err error) {
	if s.config.Log != nil {
		s.config.Log.Debug("policy evaluated pair by pair for a class of workloads", "policy", p.spec.Name, "why", err)
	}
}

// trim starts the table anew when it has grown too large.
func (t *table) trim(s *Set) {
	if len(t.columns)+len(t.atoms)+len(t.vectors)+len(t.params)+len(t.programs)+len(t.conjunctions)+len(t.grants) > maxKept {
		t.reset()
		clear(s.classes)
	}
}

// class is what a policy's deny and score read of a workload.
func (p *policy) class(workload *ast.Term) string {
	var key strings.Builder
	key.WriteString(p.spec.Name)
	for _, path := range p.projection {
		v := workload.Value
		for _, name := range path {
			if v = closures.Get(v, ast.StringTerm(name)); v == nil {
				break
			}
		}
		key.WriteByte('\n')
		if v != nil {
			key.WriteString(v.String())
		}
	}
	return key.String()
}

// inputPaths are what deny and score read of one part of input, as paths within
// it; the empty path is all of it.
func (p *policy) inputPaths(root string) [][]string {
	var paths [][]string
	for _, rule := range p.reached(p.pair.rules) {
		ast.WalkRefs(rule, func(ref ast.Ref) bool {
			if !ref[0].Equal(ast.InputRootDocument) {
				return false
			}
			known := constantPrefix(ref)
			switch {
			case len(known) < 2:
				paths = append(paths, []string{})
			case known[1] == root:
				paths = append(paths, known[2:])
			}
			return false
		})
	}
	slices.SortFunc(paths, slices.Compare[[]string])
	return slices.CompactFunc(paths, slices.Equal[[]string])
}

// constantPrefix are the names that a reference begins with.
func constantPrefix(ref ast.Ref) []string {
	for n := len(ref); n > 0; n-- {
		if known, ok := names(ref[:n]); ok {
			return known
		}
	}
	return nil
}
