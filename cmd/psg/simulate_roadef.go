package main

import (
	"flag"
	"io"

	"github.com/psgrid/psg/sim"
)

func simulateRoadefCommand() *command {
	var solve sim.Roadef
	var out output
	var best int64
	return &command{
		name: "simulate roadef", args: "-model FILE -assignment FILE -out FILE [options]",
		synopsis: "Solve a machine reassignment instance of the ROADEF/EURO challenge 2012",
		help: `
Reads a model and its initial assignment, improves the assignment by local search
for -seconds on -threads, writes it to -out, and prints what it costs before and
after, and with -best how far that is from the best cost known, in parts of the
cost before.`,
		define: func(flags *flag.FlagSet) {
			out.define(flags)
			flags.StringVar(&solve.Model, "model", "", "model `file`")
			flags.StringVar(&solve.Assignment, "assignment", "", "initial assignment `file`")
			flags.StringVar(&solve.Out, "out", "", "`file` to write: the new assignment")
			flags.IntVar(&solve.Seconds, "seconds", 300, "`time` to search")
			flags.IntVar(&solve.Threads, "threads", 2, "searches at a `time`, of which the best counts")
			flags.Uint64Var(&solve.Seed, "seed", 1, "`seed` of the search")
			flags.Int64Var(&best, "best", -1, "best `cost` known; below 0 means that none is")
		},
		run: func(c *command, args []string) error {
			switch {
			case len(args) > 0:
				return usagef("unexpected %q", args[0])
			case solve.Model == "" || solve.Assignment == "" || solve.Out == "":
				return usagef("-model, -assignment and -out are needed")
			case solve.Seconds < 1 || solve.Threads < 1 || solve.Threads > 64:
				return usagef("-seconds must be at least 1, and -threads 1 to 64")
			}
			result, err := solve.Run()
			if err != nil {
				return err
			}
			return out.print(c.stdout, result, func(w io.Writer) error {
				p := &printer{w: w}
				p.line("Cost before\t%d", result.Initial.Total())
				p.line("Cost after\t%d", result.Final.Total())
				if best >= 0 {
					p.line("From the best\t%+.7f", result.From(best))
				}
				p.line("Moved\t%d", result.Moved)
				p.line("Took\t%s", result.Took.Round(1e6))
				return p.err
			})
		},
	}
}
