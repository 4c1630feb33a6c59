package hclspec

import (
	"slices"
	"strings"

	"github.com/psgrid/psg"
)

// Scope limits a policy to some workloads. Each list holds globs, in which *
// stands for any run of characters and ? for one; a workload is covered when
// every list that is not empty has a match. An empty tier matches only globs
// that match the empty string.
type Scope struct {
	Namespaces []string
	Tenants    []string
	Tiers      []string
	Kinds      []string
}

// Covers reports whether a policy with this scope rules on the workload.
func (s Scope) Covers(w *psg.Workload) bool {
	return anyGlob(s.Namespaces, w.ID.Namespace) && anyGlob(s.Tenants, string(w.Tenant)) &&
		anyGlob(s.Tiers, w.Tier) && anyGlob(s.Kinds, w.Kind)
}

func anyGlob(globs []string, text string) bool {
	return len(globs) == 0 || slices.ContainsFunc(globs, func(glob string) bool { return globMatches(glob, text) })
}

// Match says which workloads an aggregate counts: those for which everything
// that is set matches. Strings are globs, as in Scope.
type Match struct {
	Text        map[MatchField]string
	Labels      map[string]string // a label that is absent never matches
	Preemptible *bool
}

// MatchField is a text of a workload that aggregates match.
type MatchField string

// The fields.
const (
	MatchNamespace MatchField = "namespace"
	MatchJob       MatchField = "job"
	MatchGroup     MatchField = "group"
	MatchType      MatchField = "type"
	MatchTenant    MatchField = "tenant"
	MatchTier      MatchField = "tier"
	MatchKind      MatchField = "kind"
)

func matchFields() []MatchField {
	return []MatchField{MatchNamespace, MatchJob, MatchGroup, MatchType, MatchTenant, MatchTier, MatchKind}
}

// Counts reports whether the workload is counted.
func (m Match) Counts(w *psg.Workload) bool {
	for field, glob := range m.Text {
		if !globMatches(glob, field.of(w)) {
			return false
		}
	}
	for name, glob := range m.Labels {
		value, ok := w.Labels[name]
		if !ok || !globMatches(glob, value) {
			return false
		}
	}
	return m.Preemptible == nil || *m.Preemptible == w.Preemptible
}

func (f MatchField) of(w *psg.Workload) string {
	switch f {
	case MatchNamespace:
		return w.ID.Namespace
	case MatchJob:
		return w.ID.Job
	case MatchGroup:
		return w.ID.Group
	case MatchType:
		return string(w.Type)
	case MatchTenant:
		return string(w.Tenant)
	case MatchTier:
		return w.Tier
	case MatchKind:
		return w.Kind
	}
	panic("hclspec: unknown match field " + string(f))
}

// globMatches takes time proportional to len(glob)*len(text) at worst: on a
// mismatch only the last * is tried further on.
func globMatches(glob, text string) bool {
	if !strings.ContainsAny(glob, "*?") {
		return glob == text
	}
	g, t := []rune(glob), []rune(text)
	gi, ti, star, resume := 0, 0, -1, 0
	for ti < len(t) {
		switch {
		case gi < len(g) && g[gi] == '*':
			star, resume = gi, ti
			gi++
		case gi < len(g) && (g[gi] == '?' || g[gi] == t[ti]):
			gi++
			ti++
		case star >= 0:
			resume++
			gi, ti = star+1, resume
		default:
			return false
		}
	}
	for gi < len(g) && g[gi] == '*' {
		gi++
	}
	return gi == len(g)
}
