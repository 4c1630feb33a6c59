package policies

import (
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/psgrid/psg/hclspec"
	"github.com/psgrid/psg/policies/closures"
)

// Tier is how a policy is evaluated. All tiers say the same; a higher one says
// it faster.
type Tier int32

// The tiers.
const (
	Oracle   Tier = iota // T0: OPA itself
	Compiled             // T1: OPA's plan as Go closures, pair by pair
	Columnar             // T2: bitmaps over the columns of all nodes
)

// String is the tier's short name.
func (t Tier) String() string { return fmt.Sprintf("T%d", int32(t)) }

// MarshalText writes the short name.
func (t Tier) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads it.
func (t *Tier) UnmarshalText(name []byte) error {
	for _, known := range []Tier{Oracle, Compiled, Columnar} {
		if known.String() == string(name) {
			*t = known
			return nil
		}
	}
	return fmt.Errorf("%q is no tier", name)
}

// maxSteps bounds one evaluation by closures; OPA, whose time is bounded, then
// says what is to be said.
const maxSteps = 1_000_000

// compiled is a policy's deny and score as closures.
type compiled struct {
	program *closures.Program
	rules   []string // by entry point
}

func compileClosures(p *policy, module *ast.Module, limits compileLimits) (*compiled, error) {
	entries := make([]ast.Ref, len(p.pair.rules))
	for i, rule := range p.pair.rules {
		entries[i] = p.pkg.Append(ast.StringTerm(rule))
	}
	program, err := closures.Compile([]*ast.Module{module}, limits.capabilities, entries...)
	if err != nil {
		return nil, err
	}
	return &compiled{program, p.pair.rules}, nil
}

// quicken prepares the tiers above OPA that the policy qualifies for. What it
// does not qualify for costs it nothing but speed.
func (p *policy) quicken(parsed *ast.Module, limits compileLimits) {
	var err error
	if p.fast, err = compileClosures(p, parsed, limits); err != nil {
		p.behind = err.Error()
		return
	}
	if limits.tier < Columnar {
		return
	}
	if p.why = p.obstacles(); p.why != nil {
		return
	}
	p.projection = p.inputPaths("workload")
	if p.partial, err = p.preparePartials(parsed, limits.timeout); err != nil {
		p.why = []obstacle{{p.module().Rules[0], err.Error()}}
	}
}

// highest is the highest tier that the policy qualifies for.
func (p *policy) highest() Tier {
	switch {
	case p.partial != nil:
		return Columnar
	case p.fast != nil:
		return Compiled
	}
	return Oracle
}

// judge evaluates deny and score on one pair; nil means that OPA is to be asked.
func (c *compiled) judge(p *policy, b base, input ast.Value) *verdict {
	cancel := topdown.NewCancel()
	timer := time.AfterFunc(b.timeout, cancel.Cancel)
	defer timer.Stop()
	sets := map[string]ast.Set{}
	for entry, rule := range c.rules {
		value, err := c.program.Eval(entry, input, b.data, maxSteps, cancel)
		set, ok := value.(ast.Set)
		if err != nil || !ok {
			return nil
		}
		sets[rule] = set
	}
	v, err := p.verdict(sets["deny"], sets["score"])
	if err != nil {
		return nil
	}
	return v
}

// audit compares a share of what the faster tiers say with what OPA says, and
// puts a policy that ever differs down a tier for good.
type audit struct {
	every   uint64 // one pair in so many; none when 0
	log     *slog.Logger
	pairs   atomic.Uint64
	checked atomic.Uint64
	differ  atomic.Uint64
}

// due counts pairs and reports whether the next one is to be checked.
func (a *audit) due(pairs uint64) bool {
	if a.every == 0 {
		return false
	}
	after := a.pairs.Add(pairs)
	return after/a.every != (after-pairs)/a.every
}

// pass counts pairs and reports true if none of them is to be checked; else it
// counts nothing.
func (a *audit) pass(pairs uint64) bool {
	if a.every == 0 {
		return true
	}
	before := a.pairs.Load()
	if (before+pairs)/a.every != before/a.every {
		return false
	}
	a.pairs.Add(pairs)
	return true
}

// compare reports whether got is what OPA says, and puts the policy down a tier
// if it is not. Where OPA timed out, nothing follows.
func (a *audit) compare(p *policy, tier Tier, node string, got, want *verdict) bool {
	a.checked.Add(1)
	if want.timeout || got.equal(want) {
		return true
	}
	a.differ.Add(1)
	if p.tier.CompareAndSwap(int32(tier), int32(tier-1)) && a.log != nil {
		a.log.Error("policy quarantined: its compiled form differs from OPA", "policy", p.spec.Name, "node", node,
			"from", tier.String(), "to", (tier - 1).String(), "denied", got.denials, "opa_denied", want.denials)
	}
	return false
}

func (v *verdict) equal(other *verdict) bool {
	return slices.Equal(v.denials, other.denials) && slices.Equal(v.scores, other.scores)
}

// Counters are what a set has counted since it was loaded.
type Counters struct {
	Pairs   uint64 `json:"pairs"`   // judged by a faster tier than OPA, or decided at once by columns
	Checked uint64 `json:"checked"` // of those, compared with OPA
	Differ  uint64 `json:"differ"`  // of those, with another answer: each puts a policy down a tier
	// Pairs that kept their verdict though a measurement differed, for want of
	// budget; once for each view.
	Deferred uint64 `json:"deferred"`
}

// Counters reads the counters.
func (s *Set) Counters() Counters {
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	return Counters{s.audit.pairs.Load(), s.audit.checked.Load(), s.audit.differ.Load(), s.budget.deferred}
}

// Status is how a set fares.
type Status struct {
	Policies []PolicyStatus `json:"policies"` // in the order of the bundle
	Counters
}

// PolicyStatus is how one policy of a set fares.
type PolicyStatus struct {
	Name        string       `json:"name"`
	Mode        hclspec.Mode `json:"mode"`
	Tier        Tier         `json:"tier"`                  // that deny and score are evaluated in now
	Quarantined bool         `json:"quarantined,omitempty"` // it has differed from OPA, and so is in a lower tier
}

// Status says how the set fares.
func (s *Set) Status() Status {
	out := Status{Policies: make([]PolicyStatus, len(s.policies)), Counters: s.Counters()}
	for i, p := range s.policies {
		tier := Tier(p.tier.Load())
		out.Policies[i] = PolicyStatus{p.spec.Name, p.spec.Mode, tier, tier < p.highest()}
	}
	return out
}
