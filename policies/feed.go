package policies

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/hclspec"
)

// feeds is what the bundle's data sources have answered. It is a value: feeding
// makes a new one.
type feeds struct {
	sources []hclspec.Source
	answers map[string]reply
}

type reply struct {
	value *ast.Term
	at    time.Time
}

// Feed gives policies what a data source answered at a time, as data.NAME: any
// value that encoding/json could encode. It replaces the source's last answer,
// and applies from the next call of Rule on.
func (s *Set) Feed(source string, value any, at time.Time) error {
	converted, err := ast.InterfaceToValue(value)
	if err != nil {
		return fmt.Errorf("feed data %q: %w", source, err)
	}
	for {
		old := s.fed.Load()
		if !slices.ContainsFunc(old.sources, func(known hclspec.Source) bool { return known.Name == source }) {
			return fmt.Errorf("feed data %q: %w: the bundle has no such source", source, psg.ErrUnknown)
		}
		next := &feeds{old.sources, maps.Clone(old.answers)}
		next.answers[source] = reply{ast.NewTerm(converted), at}
		if s.fed.CompareAndSwap(old, next) {
			return nil
		}
	}
}

// adopt takes over the answers that an older set of feeds has for the same
// sources.
func (f *feeds) adopt(old *feeds) *feeds {
	next := &feeds{f.sources, maps.Clone(f.answers)}
	for _, source := range f.sources {
		if slices.ContainsFunc(old.sources, func(s hclspec.Source) bool {
			return s.Name == source.Name && s.Kind == source.Kind && s.URL == source.URL && s.Query == source.Query
		}) {
			if given, ok := old.answers[source.Name]; ok {
				next.answers[source.Name] = given
			}
		}
	}
	return next
}

// at says which sources may be read at a time, and of the others why not.
// Sources whose data is to be ignored when stale are in neither.
func (f *feeds) at(now time.Time) (fresh map[string]*ast.Term, stale map[string]string) {
	fresh, stale = map[string]*ast.Term{}, map[string]string{}
	for _, source := range f.sources {
		reply, any := f.answers[source.Name]
		switch {
		case any && (source.OnStale == hclspec.StaleKeep || now.Sub(reply.at) <= source.StaleAfter):
			fresh[source.Name] = reply.value
		case source.OnStale == hclspec.StaleIgnore:
		case any:
			stale[source.Name] = fmt.Sprintf("data %q is stale: no answer for more than %s", source.Name, source.StaleAfter)
		default:
			stale[source.Name] = fmt.Sprintf("data %q has had no answer yet", source.Name)
		}
	}
	return fresh, stale
}
