package policies

import (
	"fmt"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/psgrid/psg/hclspec"
)

// reads is what a policy's answer on a pair depends on, besides the workload
// and the node.
type reads struct {
	now     bool
	cluster bool
	sources []string // sorted
}

// readsOf collects them from the compiled module, where imports and aliases are
// resolved. Everything under data that is read must exist: data that is
// undefined for a misspelt name would make a policy allow in silence.
func readsOf(p *policy, limits compileLimits) (reads, hclspec.BundleErrors) {
	var found reads
	var errs hclspec.BundleErrors
	ast.WalkRefs(p.module(), func(ref ast.Ref) bool {
		switch {
		case ref[0].Equal(ast.InputRootDocument):
			found.input(ref)
			if problem := badStatistic(ref); problem != "" {
				errs = append(errs, hclspec.BundleError{Pos: positionOf(p.dir, ref[0].Location), Problem: problem})
			}
		case ref[0].Equal(ast.DefaultRootDocument):
			if problem := found.data(ref, p, limits); problem != "" {
				errs = append(errs, hclspec.BundleError{Pos: positionOf(p.dir, ref[0].Location), Problem: problem})
			}
		}
		return false
	})
	slices.Sort(found.sources)
	found.sources = slices.Compact(found.sources)
	return found, errs
}

// readBy is what some rules of the contract read besides workload and node.
func (p *policy) readBy(rules ...string) roots {
	found := reads{}
	for _, rule := range p.reached(rules) {
		ast.WalkRefs(rule, func(ref ast.Ref) bool {
			if ref[0].Equal(ast.InputRootDocument) {
				found.input(ref)
			} else if name, plain := names(ref[:min(2, len(ref))]); plain && name[0] == "data" && len(name) > 1 {
				found.cluster = found.cluster || name[1] == "cluster"
				if slices.Contains(p.reads.sources, name[1]) {
					found.sources = append(found.sources, name[1])
				}
			}
			return false
		})
	}
	return roots(found)
}

// input notes whether the time is read: by name, or with everything else.
func (r *reads) input(ref ast.Ref) {
	if len(ref) == 1 {
		r.now = true
		return
	}
	name, constant := ref[1].Value.(ast.String)
	r.now = r.now || !constant || name == "now"
}

func (r *reads) data(ref ast.Ref, p *policy, limits compileLimits) (problem string) {
	if ref.HasPrefix(p.pkg) {
		return ""
	}
	var name ast.String
	if len(ref) > 1 {
		name, _ = ref[1].Value.(ast.String)
	}
	switch {
	case name == "":
		return fmt.Sprintf("%s: what is read under data must be named", ref)
	case name == "cluster":
		r.cluster = true
	case name == "params":
		p.warnParam(ref)
	case slices.Contains(limits.sources, string(name)):
		r.sources = append(r.sources, string(name))
	default:
		return fmt.Sprintf("%s: the bundle has no data %q%s", ref, string(name), hclspec.DidYouMean(string(name), limits.sources))
	}
	return ""
}

// warnParam warns of a parameter that the bundle does not set. It is no error:
// a policy may well have optional ones.
func (p *policy) warnParam(ref ast.Ref) {
	if len(ref) < 3 {
		return
	}
	name, ok := ref[2].Value.(ast.String)
	if _, set := p.spec.Params[string(name)]; !ok || set {
		return
	}
	known := make([]string, 0, len(p.spec.Params))
	for param := range p.spec.Params {
		known = append(known, param)
	}
	slices.Sort(known)
	p.warnings = append(p.warnings, fmt.Sprintf("%s: params has no %q, so this is undefined%s",
		positionOf(p.dir, ref[0].Location), string(name), hclspec.DidYouMean(string(name), known)))
}
