package main

import (
	"flag"
	"strings"

	"github.com/psgrid/psg/hclspec"
)

// varFlags are variables of a bundle, given as in Nomad: -var NAME=VALUE, and
// again for another.
type varFlags []hclspec.Variable

func (v *varFlags) define(flags *flag.FlagSet) {
	flags.Var(v, "var", "`NAME=VALUE` of a variable of the bundle; may be given again for another")
}

// String implements flag.Value.
func (v *varFlags) String() string { return "" }

// Set implements flag.Value.
func (v *varFlags) Set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return usagef("want NAME=VALUE, have %q", text)
	}
	*v = append(*v, hclspec.Variable{Name: name, Value: value})
	return nil
}
