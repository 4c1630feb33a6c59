package policies

import (
	"fmt"
	"io"
	"strings"
)

// Check loads a bundle and writes what it holds: each policy with its mode, its
// rules and what it reads, and all warnings.
func Check(dir string, w io.Writer) error {
	set, err := Load(dir)
	if err != nil {
		return err
	}
	set.describe(w)
	return nil
}

func (s *Set) describe(w io.Writer) {
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
