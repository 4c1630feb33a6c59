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
// value that encoding/json could encode, with numbers of no more than 1000 digits,
// their exponents counted. It replaces the source's last answer unless that is of
// a later time, and applies from the next call of Rule on. A large answer is best
// given as a json.RawMessage: the text that was there before costs nothing, and
// another one is read within Config.ReloadShare, unless the source has had no
// answer yet.
func (s *Set) Feed(source string, value any, at time.Time) error {
	known, ok := s.source(source)
	if !ok {
		return fmt.Errorf("feed data %q: %w: the bundle has no such source", source, psg.ErrUnknown)
	}
	given, answered := s.fed.Load().answers[source]
	var pace *pace
	if answered {
		pace = s.config.pace(known.Interval / 2)
	}
	next, err := given.next(value, pace)
	if err != nil {
		return fmt.Errorf("feed data %q: %w", source, err)
	}
	next.at = at
	s.take(&feeds{[]hclspec.Source{known}, map[string]reply{source: next}})
	return nil
}

// source is the data source of a name.
func (s *Set) source(name string) (hclspec.Source, bool) {
	i := slices.IndexFunc(s.bundle.Sources, func(known hclspec.Source) bool { return known.Name == name })
	if i < 0 {
		return hclspec.Source{}, false
	}
	return s.bundle.Sources[i], true
}

// take adds the answers that other feeds have for the same sources, where they
// are no older.
func (s *Set) take(other *feeds) {
	for {
		mine := s.fed.Load()
		if s.fed.CompareAndSwap(mine, mine.adopt(other)) {
			return
		}
	}
}

// next is the answer after r.
func (r reply) next(value any, pace *pace) (next reply, err error) {
	text, ok := value.(json.RawMessage)
	if !ok {
		converted, err := ast.InterfaceToValue(value)
		if err == nil {
			err = checkDigits(converted)
		}
		return reply{value: ast.NewTerm(converted)}, err
	}
	if next.sum = sha256.Sum256(text); next.sum == r.sum {
		return r, nil
	}
	next.value, err = decodeJSON(text, pace)
	return next, err
}

// adopt is f with the answers that other feeds have for the same sources, where
// they are no older. Who feeds does not wait for one another: what is taken in
// last need not have been answered last.
func (f *feeds) adopt(other *feeds) *feeds {
	next := &feeds{f.sources, maps.Clone(f.answers)}
	for _, source := range f.sources {
		if !slices.ContainsFunc(other.sources, source.Asks) {
			continue
		}
		mine, any := f.answers[source.Name]
		if given, ok := other.answers[source.Name]; ok && !(any && given.at.Before(mine.at)) {
			next.answers[source.Name] = given
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
