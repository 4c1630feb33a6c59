package main

import (
	"flag"

	"github.com/psgrid/psg/policies"
)

func policyDiffCommand() *command {
	var snapshot string
	var out output
	return &command{
		name: "policy diff", args: "[-json|-t TEMPLATE] -snapshot FILE OLD NEW",
		synopsis: "Show which verdicts change from one policy bundle to another, and why",
		help: `
Rules on every workload of the snapshot with both bundles, and prints the
(workload, node) verdicts that differ: - for OLD, + for NEW. Exits 1 if any does.`,
		define: func(flags *flag.FlagSet) {
			flags.StringVar(&snapshot, "snapshot", "", "JSON `file` of the cluster")
			out.define(flags)
		},
		run: func(c *command, args []string) error {
			if len(args) != 2 || snapshot == "" {
				return usagef("want two bundle directories and -snapshot")
			}
			s, err := policies.ReadFile(snapshot, maxDocument)
			if err != nil {
				return err
			}
			difference, err := policies.Diff(c.ctx, args[0], args[1], s)
			if err != nil {
				return err
			}
			if err := out.print(c.stdout, difference, difference.WriteText); err != nil {
				return err
			}
			if difference.Workloads != nil {
				return errNo
			}
			return nil
		},
	}
}
