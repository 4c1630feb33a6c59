package hclspec

import (
	"fmt"
	"os"
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

// LoadBundle reads bundle.hcl in a directory and checks that the Rego files it
// names are there; it does not read them. On any error nothing is returned but
// the error, a BundleErrors when the file itself is wrong.
func LoadBundle(dir string, variables ...Variable) (Bundle, error) {
	path := filepath.Join(dir, BundleFile)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Bundle{}, fmt.Errorf("open bundle: %w", err)
	}
	defer root.Close()
	src, err := root.ReadFile(BundleFile)
	if err != nil {
		return Bundle{}, fmt.Errorf("open bundle: %w", err)
	}
	bundle, err := ParseBundle(path, src, variables...)
	if err != nil {
		return Bundle{}, err
	}
	var errs BundleErrors
	for _, policy := range bundle.Policies {
		if info, err := root.Stat(filepath.FromSlash(policy.Rego)); err != nil || !info.Mode().IsRegular() {
			hint := DidYouMean(policy.Rego, regoFiles(root))
			errs = append(errs, BundleError{policy.Pos, fmt.Sprintf("policy %q: no file %q in the bundle%s", policy.Name, policy.Rego, hint)})
		}
	}
	if errs != nil {
		return Bundle{}, errs
	}
	return bundle, nil
}

// regoFiles lists the Rego files at the top of a bundle, for suggestions only.
func regoFiles(root *os.Root) []string {
	dir, err := root.Open(".")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}
	names = slices.DeleteFunc(names, func(name string) bool { return filepath.Ext(name) != ".rego" })
	slices.Sort(names)
	return names
}
