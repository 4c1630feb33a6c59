package main

import (
	"flag"

	"github.com/psgrid/psg/policies"
)

func policyCheckCommand() *command {
	var verbose bool
	var key keyFlags
	var vars varFlags
	return &command{
		name: "policy check", args: "[-verbose] [-key FILE] [-var NAME=VALUE]… DIR",
		synopsis: "Load a policy bundle as a controller would, and say what is in it",
		help: `
Reads DIR/bundle.hcl, or an archive that psg policy build made, and the Rego it
names. Prints each policy with its mode and rules, and warnings. A fault is
reported with file, line and column. With -key, the bundle must be signed with it.`,
		define: func(flags *flag.FlagSet) {
			flags.BoolVar(&verbose, "verbose", false, "print how each rule is evaluated, and why not faster")
			key.define(flags, "key", "public key or certificate, or secret, that the bundle must be signed with")
			vars.define(flags)
		},
		run: func(c *command, args []string) error {
			if len(args) != 1 {
				return usagef("want one bundle directory, have %d", len(args))
			}
			read, err := key.read()
			if err != nil {
				return err
			}
			return policies.Config{Key: read, Variables: vars}.Check(args[0], harmless{c.stdout}, verbose)
		},
	}
}

func policyTestCommand() *command {
	var verbose bool
	var vars varFlags
	return &command{
		name: "policy test", args: "[-verbose] [-var NAME=VALUE]… DIR…",
		synopsis: "Run a bundle's Rego tests with OPA's test runner",
		help:     "Runs every test_ rule of each bundle. Fails if one fails; a bundle without tests\npasses, and is said to have none.",
		define: func(flags *flag.FlagSet) {
			flags.BoolVar(&verbose, "verbose", false, "print each test")
			vars.define(flags)
		},
		run: func(c *command, args []string) error {
			if len(args) == 0 {
				return usagef("want a bundle directory")
			}
			failed := 0
			for _, dir := range args {
				n, err := policies.Config{Variables: vars}.Test(c.ctx, dir, harmless{c.stdout}, verbose)
				if err != nil {
					return err
				}
				failed += n
			}
			if failed > 0 {
				return errNo
			}
			return nil
		},
	}
}
