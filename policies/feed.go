package policies

import (
	"crypto/sha256"
	"encoding/json"
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
	sum   [sha256.Size]byte // of the JSON text that the value is of; zero for none
}

// Feed gives policies what a data source answered at a time, as data.NAME: any
// value that encoding/json could encode. It replaces the source's last answer,
// and applies from the next call of Rule on. A large answer is best given as a
// json.RawMessage: the text that was there before costs nothing, and another one
// is read within Config.ReloadShare, unless the source has had no answer yet.
func (s *Set) Feed(source string, value any, at time.Time) error {
	fed := s.fed.Load()
	i := slices.IndexFunc(fed.sources, func(known hclspec.Source) bool { return known.Name == source })
	if i < 0 {
		return fmt.Errorf("feed data %q: %w: the bundle has no such source", source, psg.ErrUnknown)
	}
	given, answered := fed.answers[source]
	var pace *pace
	if answered {
		pace = s.config.pace(fed.sources[i].Interval / 2)
	}
	next, err := given.next(value, pace)
	if err != nil {
		return fmt.Errorf("feed data %q: %w", source, err)
	}
	next.at = at
	for {
		old := s.fed.Load()
		with := &feeds{old.sources, maps.Clone(old.answers)}
		with.answers[source] = next
		if s.fed.CompareAndSwap(old, with) {
			return nil
		}
	}
}

// next is the answer after r.
func (r reply) next(value any, pace *pace) (next reply, err error) {
	text, ok := value.(json.RawMessage)
	if !ok {
		converted, err := ast.InterfaceToValue(value)
		return reply{value: ast.NewTerm(converted)}, err
	}
	if next.sum = sha256.Sum256(text); next.sum == r.sum {
		return r, nil
	}
	next.value, err = decodeJSON(text, pace)
	return next, err
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
