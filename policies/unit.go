package policies

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/psgrid/psg/policies/closures"
)

// unit is a part of what partial evaluation left that is evaluated as a whole,
// by closures: a comprehension, a call of a function, conditions about some
// element of a list. What it gives becomes a column, or a param if it reads
// nothing of the node.
type unit struct {
	policy   *policy
	program  *closures.Program
	fields   []int // of the node that it reads
	workload *ast.Term
	roots    roots
	guard    *guard
}

// guard is data that a unit reads by a field of the node: where there is none,
// which for most nodes is so of maintenance windows and the like, nothing has to
// be evaluated.
type guard struct {
	source string
	field  int
	keys   []string
}

// shut reports whether the unit gives nothing for a node.
func (g *guard) shut(v *view, d *document) bool {
	source := v.sources[g.source]
	if source == nil {
		return true
	}
	name, ok := d.at(g.field, g.keys).(ast.String)
	if !ok {
		return false
	}
	found, err := closures.OfData(source.Value, ast.NewTerm(name))
	return found == nil && err == nil
}

// guardOf finds the guard of conditions that must hold together: one that reads
// data.SOURCE[input.node.FIELD], and so does not hold where that is undefined.
func (g *grower) guardOf(body ast.Body) *guard {
	for _, expr := range body {
		if expr.Negated || len(expr.With) > 0 || operator(expr) != "eq" {
			continue
		}
		for _, term := range expr.Operands() {
			ref, ok := term.Value.(ast.Ref)
			if !ok || len(ref) < 3 || !ref[0].Equal(ast.DefaultRootDocument) {
				continue
			}
			source, _ := ref[1].Value.(ast.String)
			key, isRef := ref[2].Value.(ast.Ref)
			path, plain := names(key)
			if !isRef || !plain || len(path) < 3 || path[0] != "input" || path[1] != "node" || !slices.Contains(g.residual.policy.reads.sources, string(source)) {
				continue
			}
			if i, ok := fieldIndex(path[2]); ok {
				return &guard{string(source), i, path[3:]}
			}
		}
	}
	return nil
}

// maxUnitSteps bounds the evaluation of a unit on one node. What takes more is
// not for columns.
const maxUnitSteps = 20_000

// eval evaluates the unit on a node; nil for none.
func (u *unit) eval(v *view, d *document, data ast.Value) (ast.Value, error) {
	if u.guard != nil && u.guard.shut(v, d) {
		return nil, nil
	}
	input := make([][2]*ast.Term, 0, 3)
	if d != nil {
		fields := make([][2]*ast.Term, len(u.fields))
		for i, f := range u.fields {
			fields[i] = field(nodeFields[f].name, d.field(f))
		}
		input = append(input, field("node", ast.ObjectTerm(fields...)))
	}
	if u.workload != nil {
		input = append(input, field("workload", u.workload))
	}
	if u.roots.now {
		input = append(input, field("now", v.now))
	}
	return u.program.Eval(0, ast.NewObject(input...), data, maxUnitSteps, nil)
}

// unit makes a tree of a term, or of a body that holds or does not.
func (g *grower) unit(term *ast.Term, body ast.Body) (*tree, error) {
	text := "true"
	if term != nil {
		text = term.String()
	} else {
		text = body.String()
	}
	reads := &unitReads{grower: g, rules: map[*ast.Rule]bool{}}
	if term != nil {
		reads.walk(term)
	} else {
		reads.walk(body)
	}
	if reads.err != nil {
		return nil, reads.err
	}
	key := g.residual.policy.spec.Name + ": " + normal(text+"\n"+strings.Join(reads.text, "\n"))
	if reads.workload {
		key += "\n" + g.class
	}
	slices.Sort(reads.fields)
	u := &unit{policy: g.residual.policy, fields: slices.Compact(reads.fields), roots: reads.roots}
	if reads.workload {
		u.workload = g.workload
	}
	u.guard = g.guardOf(body)
	compile := func() error { return u.compile(g, term, body, reads) }
	if len(u.fields) == 0 {
		p, err := g.table.unitParam(key, u, compile)
		if err != nil {
			return nil, err
		}
		return paramTree(p), nil
	}
	c, err := g.table.unitColumn(key, u, compile)
	if err != nil {
		return nil, err
	}
	return columnTree(c), nil
}

// normal renames the variables that OPA made up, by their order: their numbers
// differ between one partial evaluation and the next.
func normal(text string) string {
	renamed := map[string]string{}
	return regexp.MustCompile(`__local\d+__(\d+)?`).ReplaceAllStringFunc(text, func(name string) string {
		if renamed[name] == "" {
			renamed[name] = "$" + strconv.Itoa(len(renamed))
		}
		return renamed[name]
	})
}

func (u *unit) compile(g *grower, term *ast.Term, body ast.Body, reads *unitReads) (err error) {
	module := ast.MustParseModuleWithOpts("package psg_unit\n\nv := x if x = 1\n", ast.ParserOptions{RegoVersion: ast.RegoV1})
	rule := module.Rules[0]
	if term != nil {
		rule.Body = ast.NewBody(ast.Equality.Expr(ast.VarTerm("x"), term.Copy()))
	} else {
		rule.Head.Value = ast.BooleanTerm(true)
		rule.Body = body.Copy()
	}
	modules := []*ast.Module{module}
	for _, support := range g.residual.support {
		needed := slices.DeleteFunc(slices.Clone(support.Rules), func(rule *ast.Rule) bool { return !reads.rules[rule] })
		if len(needed) > 0 {
			modules = append(modules, &ast.Module{Package: support.Package, Rules: needed})
		}
	}
	if reads.original {
		modules = append(modules, g.residual.original)
	}
	u.program, err = closures.Compile(modules, deterministic(), ast.MustParseRef("data.psg_unit.v"))
	if err != nil {
		return fmt.Errorf("compile %s: %w", normal(rule.String()), err)
	}
	return nil
}

// unitReads collects what a unit reads, rules that it refers to included.
type unitReads struct {
	grower   *grower
	fields   []int
	roots    roots
	workload bool
	original bool
	text     []string // of the rules
	rules    map[*ast.Rule]bool
	err      error
}

func (r *unitReads) walk(x any) {
	ast.WalkRefs(x, func(ref ast.Ref) bool {
		switch {
		case ref[0].Equal(ast.InputRootDocument):
			r.input(ref)
		case ref[0].Equal(ast.DefaultRootDocument):
			r.data(ref)
		}
		return false
	})
}

func (r *unitReads) input(ref ast.Ref) {
	var root, name ast.String
	if len(ref) > 1 {
		root, _ = ref[1].Value.(ast.String)
	}
	if len(ref) > 2 {
		name, _ = ref[2].Value.(ast.String)
	}
	switch root {
	case "now":
		r.roots.now = true
	case "workload":
		r.workload = true
	case "node":
		if i, ok := fieldIndex(string(name)); ok {
			r.fields = append(r.fields, i)
		} else if name == "" {
			r.err = fmt.Errorf("%v: the whole node is read", ref)
		}
	default:
		r.err = fmt.Errorf("%v: the whole input is read", ref)
	}
}

func (r *unitReads) data(ref ast.Ref) {
	p := r.grower.residual.policy
	if len(ref) < 2 {
		r.err = fmt.Errorf("%v: all data is read", ref)
		return
	}
	name, _ := ref[1].Value.(ast.String)
	switch {
	case name == "params" && !ref.HasPrefix(p.pkg):
	case name == "cluster" && !ref.HasPrefix(p.pkg):
		r.roots.cluster = true
	case slices.Contains(p.reads.sources, string(name)):
		r.roots.sources = append(r.roots.sources, string(name))
	default:
		r.follow(ref)
	}
}

// follow walks the rules that a reference may mean.
func (r *unitReads) follow(ref ast.Ref) {
	found := r.grower.residual.policy.compiler.GetRules(ref)
	if len(found) > 0 {
		r.original = true
	}
	for _, module := range r.grower.residual.support {
		for _, rule := range module.Rules {
			path := module.Package.Path.Extend(rule.Head.Ref())
			if ref.HasPrefix(path.GroundPrefix()) || path.HasPrefix(ref.GroundPrefix()) {
				found = append(found, rule)
			}
		}
	}
	if len(found) == 0 {
		r.err = fmt.Errorf("%v: it is not known what that is", ref)
	}
	for _, rule := range found {
		if !r.rules[rule] {
			r.rules[rule] = true
			r.text = append(r.text, rule.String())
			r.walk(rule)
		}
	}
}
