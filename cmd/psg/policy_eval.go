package main

import (
	"flag"

	"github.com/psgrid/psg/policies"
)

// maxDocument bounds the JSON of a workload and of a cluster, in bytes.
const maxDocument = 1 << 30

func policyEvalCommand() *command {
	var workload, snapshot string
	var out output
	var vars varFlags
	return &command{
		name: "policy eval", args: "[-json|-t TEMPLATE] [-var NAME=VALUE]… -workload FILE -snapshot FILE DIR",
		synopsis: "Show what a policy bundle says of a workload on each node",
		help: `
Rules on the workload over the nodes of the snapshot, each the JSON of the type
of that name, and prints for each node whether it is allowed, why not, and its
score.`,
		define: func(flags *flag.FlagSet) {
			flags.StringVar(&workload, "workload", "", "JSON `file` of the workload")
			flags.StringVar(&snapshot, "snapshot", "", "JSON `file` of the cluster")
			out.define(flags)
			vars.define(flags)
		},
		run: func(c *command, args []string) error {
			if len(args) != 1 || workload == "" || snapshot == "" {
				return usagef("want one bundle directory, -workload and -snapshot")
			}
			w, err := policies.ReadFile(workload, maxDocument)
			if err != nil {
				return err
			}
			s, err := policies.ReadFile(snapshot, maxDocument)
			if err != nil {
				return err
			}
			report, err := policies.Config{Variables: vars}.Eval(c.ctx, args[0], w, s)
			if err != nil {
				return err
			}
			return out.print(c.stdout, report, report.WriteText)
		},
	}
}
