package main

import (
	"fmt"
	"io"
	"strings"
)

// family is a word that only begins commands, such as "job". It implements
// cli.Command, which lists its commands below Help.
type family struct {
	name     string
	synopsis string
	stderr   io.Writer
}

func families(stderr io.Writer) []*family {
	return []*family{
		{"alloc", "Explain allocations", stderr},
		{"audit", "List and verify what was decided", stderr},
		{"bus", "Issue credentials for the bus", stderr},
		{"job", "Register, show and explain jobs, and make room for them", stderr},
		{"node", "Show and empty nodes, and order their agents", stderr},
		{"policy", "Check, sign and test policy bundles, and see those in force", stderr},
		{"shim", "Serve and leave Nomad", stderr},
		{"simulate", "Replay published traces", stderr},
	}
}

// Run is reached when no command of the family was named.
func (f *family) Run(args []string) int {
	if len(args) == 0 {
		fmt.Fprintf(f.stderr, "psg %s: want a subcommand; psg %s -h lists them\n", f.name, f.name)
	} else {
		fmt.Fprintf(f.stderr, "psg %s: no subcommand %q; psg %s -h lists them\n", f.name, strings.Join(args, " "), f.name)
	}
	return exitUsage
}

// Synopsis is the line in the list of commands.
func (f *family) Synopsis() string { return f.synopsis }

// Help is what -h prints above the list of subcommands.
func (f *family) Help() string {
	return fmt.Sprintf("Usage: psg %s <subcommand> [options]\n\n%s.", f.name, f.synopsis)
}
