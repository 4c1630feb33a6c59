package policies

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/psgrid/psg"
)

// Check loads a bundle and writes what it holds: each policy with its mode, its
// rules and what it reads, and all warnings. If verbose, it also writes how each
// rule is evaluated, and why not faster.
func (c Config) Check(dir string, w io.Writer, verbose bool) error {
	set, err := c.Load(dir)
	if err != nil {
		return err
	}
	set.describe(w, verbose)
	return nil
}

func (s *Set) describe(w io.Writer, verbose bool) {
	fmt.Fprintf(w, "bundle %s", s.bundle.Name)
	if s.bundle.Version != "" {
		fmt.Fprintf(w, " %s", s.bundle.Version)
	}
	fmt.Fprintf(w, ": policies=%d aggregates=%d tenants=%d sources=%d\n", len(s.policies), len(s.bundle.Aggregates), len(s.bundle.Tenants), len(s.bundle.Sources))
	for _, p := range s.policies {
		fmt.Fprintf(w, "policy %s: %s, %s, %s", p.spec.Name, p.spec.Mode, p.spec.Rego, strings.Join(p.rules, " "))
		if reads := p.reads.list(); reads != nil {
			fmt.Fprintf(w, ", reads %s", strings.Join(reads, " "))
		}
		fmt.Fprintln(w)
		if verbose {
			s.describeTiers(w, p)
		}
	}
	for _, warning := range s.warnings {
		fmt.Fprintf(w, "warning: %s\n", warning)
	}
}

// list names what keeps answers from being remembered while nodes stay as they
// are.
func (r reads) list() []string {
	var out []string
	if r.now {
		out = append(out, "input.now")
	}
	if r.cluster {
		out = append(out, "data.cluster")
	}
	for _, source := range r.sources {
		out = append(out, "data."+source)
	}
	return out
}

// describeTiers writes one line for each rule of the contract. The rules that
// are asked of a node share a tier: an error in one is an error of all.
func (s *Set) describeTiers(w io.Writer, p *policy) {
	for _, rule := range p.module().Rules {
		name := ruleName(rule)
		if !slices.Contains(contract(), name) {
			continue
		}
		fmt.Fprintf(w, "  %s (line %d): ", name, rule.Location.Row)
		if name == "reject" || name == "protect" {
			fmt.Fprintf(w, "%s, OPA, once for each workload\n", Oracle)
			continue
		}
		fmt.Fprintln(w, p.describeTier())
	}
	if p.pair == nil {
		return
	}
	for _, o := range p.why {
		fmt.Fprintf(w, "  not by columns: rule %s (line %d): %s\n", ruleName(o.rule), o.rule.Location.Row, o.why)
	}
	if p.behind != "" {
		fmt.Fprintf(w, "  not by closures: %s\n", p.behind)
	}
	if p.partial == nil && p.measures() {
		fmt.Fprintf(w, "  reads measurements pair by pair: beyond %d such pairs a cycle, verdicts are up to %s old, and changes within %g %% wait so long\n",
			s.config.Budget, s.config.MaxAge, 100*deadband)
	}
	if p.partial != nil {
		s.table.mu.Lock()
		defer s.table.mu.Unlock()
		if _, err := s.table.program(context.Background(), p, workloadDocument(&psg.Workload{}), p.spec.Name); err != nil {
			fmt.Fprintf(w, "  pair by pair for a workload that sets nothing: %v\n", err)
		}
	}
}

func (p *policy) describeTier() string {
	switch tier := Tier(p.tier.Load()); tier {
	case Columnar:
		return fmt.Sprintf("%s, by columns, on all nodes at once", tier)
	case Compiled:
		return fmt.Sprintf("%s, by closures, on the nodes that changed", tier)
	default:
		return fmt.Sprintf("%s, OPA, on the nodes that changed", tier)
	}
}
