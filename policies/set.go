package policies

import (
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/hclspec"
)

// Config says how a bundle is loaded and evaluated.
type Config struct {
	// Variables override defaults of the bundle's variable blocks.
	Variables []hclspec.Variable
	// Timeout bounds one evaluation of one policy; 250 ms when zero. The pair
	// is then denied.
	Timeout time.Duration
	// Workers bounds how many pairs one Rule evaluates at a time; the number of
	// processors when zero.
	Workers int
	// Sample is how many pairs there are to one that is checked against OPA when
	// a faster tier has judged it; ten million when zero, no check below zero.
	Sample int
	// Budget is how many pairs of workload and node a view judges again, pair by
	// pair, because a measurement differs; 4,096 when zero. What exceeds it keeps
	// its verdict for MaxAge at most; 10 s when zero.
	Budget int
	MaxAge time.Duration
	// ReloadShare is the part of one processor that a reload, and taking in what a
	// data source answers anew, may use beside the decisions; a fifth when zero, no
	// bound from 1. It makes neither take more than 10 s longer.
	ReloadShare float64
	// MaxTier bounds the tiers; nil bounds nothing. Tests and benchmarks set it.
	MaxTier *Tier
	// Key, when given, is what a bundle must be signed with to be loaded.
	Key Key
	// Log gets a line when a policy is quarantined; nil for none.
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Timeout <= 0 {
		c.Timeout = 250 * time.Millisecond
	}
	if c.Workers <= 0 {
		c.Workers = runtime.GOMAXPROCS(0)
	}
	if c.Budget <= 0 {
		c.Budget = 4096
	}
	if c.MaxAge <= 0 {
		c.MaxAge = 10 * time.Second
	}
	if c.ReloadShare <= 0 {
		c.ReloadShare = 0.2
	}
	c.ReloadShare = min(c.ReloadShare, 1)
	if c.Sample == 0 {
		c.Sample = 10_000_000
	}
	return c
}

// Set is a loaded bundle: its policies, compiled. It does not change, other
// than by what is fed to it, and is safe for concurrent use.
type Set struct {
	config   Config
	bundle   hclspec.Bundle
	files    *files
	policies []*policy // in the order of the bundle
	warnings []string

	fed    atomic.Pointer[feeds]
	viewer viewer
	memory memory
	budget budget
	audit  audit

	table table
	// Under the table's lock.
	classes  map[psg.WorkloadID]*class
	keeping  [maxRulings]*class // that have a kept ruling, or had
	keepNext int
	scratch  kept
}

// Load compiles a bundle with the default Config. Everything wrong with it is
// reported at once, as hclspec.BundleErrors.
func Load(dir string) (*Set, error) { return Config{}.Load(dir) }

// Load compiles the bundle in a directory, or an archive that Build made.
func (c Config) Load(dir string) (*Set, error) { return c.loadAt(dir, nil) }

func (c Config) loadAt(dir string, pace *pace) (*Set, error) {
	f, err := readFiles(dir)
	if err != nil {
		return nil, err
	}
	if c.Key.given() {
		if err := f.verify(c.Key); err != nil {
			return nil, err
		}
	}
	return c.load(f, pace)
}

func (c Config) load(f *files, pace *pace) (*Set, error) {
	bundle, err := hclspec.ReadBundle(f.path, f.content, c.Variables...)
	if err != nil {
		return nil, err
	}
	s := &Set{config: c.withDefaults(), bundle: bundle, files: f, classes: map[psg.WorkloadID]*class{}}
	s.budget.pairs, s.budget.maxAge = s.config.Budget, s.config.MaxAge
	s.table.now = at(emptyView())
	s.table.reset()
	s.audit.every, s.audit.log = uint64(max(s.config.Sample, 0)), s.config.Log
	limits := limitsOf(f.path, bundle)
	limits.timeout = s.config.Timeout
	if s.config.MaxTier != nil {
		limits.tier = *s.config.MaxTier
	}
	var errs hclspec.BundleErrors
	for _, spec := range bundle.Policies {
		pace.rest()
		p, wrong := compilePolicy(spec, string(f.content[spec.Rego]), limits)
		errs = append(errs, wrong...)
		if wrong == nil {
			p.tier.Store(int32(p.highest()))
			s.policies = append(s.policies, p)
			s.viewer.cluster = s.viewer.cluster || p.reads.cluster
		}
	}
	if errs != nil {
		return nil, errs
	}
	s.viewer.aggregates = bundle.Aggregates
	s.fed.Store(&feeds{sources: bundle.Sources, answers: map[string]reply{}})
	s.warnings = s.collectWarnings()
	return s, nil
}

// Bundle is what the bundle declares. The caller must not change it.
func (s *Set) Bundle() hclspec.Bundle { return s.bundle }

// Warnings are what looks wrong in the bundle but keeps it from nothing: rules
// that are never used, parameters that are not set, files of no policy. Each
// begins with file:line:column where it has one.
func (s *Set) Warnings() []string { return slices.Clone(s.warnings) }

// Digest sums up the files of the bundle, its signature aside.
func (s *Set) Digest() string { return s.files.digest() }

func (s *Set) collectWarnings() (warnings []string) {
	for _, p := range s.policies {
		warnings = append(warnings, p.warnings...)
	}
	for _, file := range s.files.rego() {
		if !strings.HasSuffix(file, "_test.rego") &&
			!slices.ContainsFunc(s.policies, func(p *policy) bool { return p.spec.Rego == file }) {
			warnings = append(warnings, fmt.Sprintf("%s: no policy of the bundle uses this file", inBundle(s.files.path, file)))
		}
	}
	if _, signed := s.files.content[signaturesFile]; signed && !s.config.Key.given() {
		warnings = append(warnings, fmt.Sprintf("%s: the bundle is signed, and no key is given to verify it by", inBundle(s.files.path, signaturesFile)))
	}
	return warnings
}
