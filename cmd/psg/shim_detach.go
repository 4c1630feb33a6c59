package main

import (
	"flag"
	"io"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg/shim"
)

func shimDetachCommand() *command {
	var out output
	var namespace, tokenFile string
	return &command{
		name: "shim detach", args: "[-namespace NAME] [-json | -t TEMPLATE]",
		synopsis: "Give jobs back to Nomad: take off PSG's hints and holds",
		help: `
Takes what PSG has added off every job: its placement hints, and the hold. No
task restarts. Stop the controllers first, or they steer again. Gates stay, as
they are the job's own tasks: running allocations are past them, new ones need
PSG's driver, with fail = "open" if no controller is to come back.

Fails if a job had to be left as it is, such as while it is being deployed; run
it again then.`,
		define: func(flags *flag.FlagSet) {
			out.define(flags)
			flags.StringVar(&namespace, "namespace", envOr("NOMAD_NAMESPACE", api.AllNamespacesNamespace), "the jobs' `namespace`; * for all")
			flags.StringVar(&tokenFile, "nomad-token-file", "", "`file` with the Nomad token, instead of NOMAD_TOKEN")
		},
		run: func(c *command, args []string) error {
			if len(args) > 0 {
				return usagef("unexpected %q", args[0])
			}
			_, client, err := shim.NewAccess(tokenFile)
			if err != nil {
				return err
			}
			jobs, err := shim.NewEnactor(client).Detach(c.ctx, namespace)
			if err != nil {
				return err
			}
			if err := out.print(c.stdout, jobs, func(w io.Writer) error { return listDetached(w, jobs) }); err != nil {
				return err
			}
			for _, job := range jobs {
				if job.Left != "" {
					return errNo
				}
			}
			return nil
		},
	}
}

func listDetached(w io.Writer, jobs []shim.Detached) error {
	p := &printer{w: w}
	p.line("Namespace\tJob\tTaken off\tTasks on psg\tLeft because")
	for _, job := range jobs {
		p.line("%s\t%s\t%t\t%d\t%s", job.Namespace, job.Job, job.Changed, job.Gates, job.Left)
	}
	return p.err
}
