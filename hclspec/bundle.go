package hclspec

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/psgrid/psg"
)

// BundleFile is the name of the file that makes a directory a policy bundle.
const BundleFile = "bundle.hcl"

// Bundle is a policy bundle as its bundle.hcl declares it. Everything keeps the
// order of the file: it is the order in which reasons reach users.
type Bundle struct {
	Name       string
	Version    string
	Policies   []Policy
	Aggregates []Aggregate
	Tenants    []psg.Tenant
	Limits     []psg.Limit
	Sources    []Source
}

// Mode is what becomes of a policy's decisions.
type Mode string

// The modes.
const (
	Enforce Mode = "enforce" // applied
	Audit   Mode = "audit"   // recorded, not applied
)

// Policy is one Rego file of a bundle and how it is used.
type Policy struct {
	Name   string
	Rego   string // slash-separated path within the bundle
	Mode   Mode
	Params map[string]any // data.params, as encoding/json decodes it with numbers kept as json.Number
	Weight int64          // multiplies the points of its score; 0..1000
	Scope  Scope
	Pos    Position // of its block
}

// Aggregate is a count that each node's document carries: how many of the
// workloads on the node match.
type Aggregate struct {
	Name  string
	Match Match
	Pos   Position
}

// OnStale is what policies that read a data source do once it has gone stale.
type OnStale string

// What can be done about stale data.
const (
	StaleDeny   OnStale = "deny"   // they deny, and say which source is stale
	StaleIgnore OnStale = "ignore" // the data is undefined to them
	StaleKeep   OnStale = "keep"   // the last data stays; deny while there has been none
)

// Source is external data that policies read as data.NAME. It is fetched beside
// the decision path, never in it.
type Source struct {
	Kind       string // "prometheus" or "http"
	Name       string
	URL        string // the server's address for prometheus
	Query      string // prometheus only
	Key        string // prometheus only: label whose value becomes the key of the data
	Range      time.Duration
	Step       time.Duration // with Range, a range query; else both are zero
	Interval   time.Duration // between fetches
	Timeout    time.Duration // of one fetch; at most Interval
	StaleAfter time.Duration // age of the last good answer at which OnStale sets in
	OnStale    OnStale
	Pos        Position
}

// Asks reports whether an answer to one source is one to the other, too: they
// have one name, and differ at most in when they are fetched and how long what
// they say counts.
func (s Source) Asks(other Source) bool {
	return s.question() == other.question()
}

// question is all that shapes the answer.
func (s Source) question() Source {
	s.Interval, s.Timeout, s.StaleAfter, s.OnStale, s.Pos = 0, 0, 0, "", Position{}
	return s
}

// ReadBundle reads bundle.hcl among the files of a bundle, by their slash-separated
// paths within it, and checks that the Rego files that it names are there; it does
// not read those. dir is where they are, for positions. On any error nothing is
// returned but the error, a BundleErrors when the file itself is wrong.
func ReadBundle(dir string, files map[string][]byte, variables ...Variable) (Bundle, error) {
	src, ok := files[BundleFile]
	if !ok {
		return Bundle{}, fmt.Errorf("open bundle: there is no %s in %s", BundleFile, dir)
	}
	bundle, err := ParseBundle(filepath.Join(dir, BundleFile), src, variables...)
	if err != nil {
		return Bundle{}, err
	}
	rego := slices.DeleteFunc(slices.Sorted(maps.Keys(files)), func(name string) bool { return path.Ext(name) != ".rego" })
	var errs BundleErrors
	for _, policy := range bundle.Policies {
		if _, ok := files[policy.Rego]; !ok {
			errs = append(errs, BundleError{policy.Pos, fmt.Sprintf("policy %q: no file %q in the bundle%s", policy.Name, policy.Rego, DidYouMean(policy.Rego, rego))})
		}
	}
	if errs != nil {
		return Bundle{}, errs
	}
	return bundle, nil
}
