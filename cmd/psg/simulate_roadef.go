package main

import (
	"flag"
	"fmt"
	"io"

	"github.com/psgrid/psg/sim"
)

func simulateRoadefCommand() *command {
	var solve sim.Roadef
	var out output
	return &command{
		name: "simulate roadef", args: "-model FILE -assignment FILE -out FILE [options]",
		synopsis: "Solve a machine reassignment instance of the ROADEF/EURO challenge 2012",
		help: `
Reads a model and its initial assignment, improves the assignment by local search
for -seconds on -threads, writes it to -out, and prints what it costs before and
after.`,
		define: func(flags *flag.FlagSet) {
			out.define(flags)
			flags.StringVar(&solve.Model, "model", "", "model `file`")
			flags.StringVar(&solve.Assignment, "assignment", "", "initial assignment `file`")
			flags.StringVar(&solve.Out, "out", "", "`file` to write: the new assignment")
			flags.IntVar(&solve.Seconds, "seconds", 300, "`time` to search")
			flags.IntVar(&solve.Threads, "threads", 2, "searches at a `time`, of which the best counts")
			flags.Uint64Var(&solve.Seed, "seed", 1, "`seed` of the search")
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
				_, err := fmt.Fprintf(w, "Cost before\t%d\nCost after\t%d\nMoved\t%d\nTook\t%s\n",
					result.Initial.Total(), result.Final.Total(), result.Moved, result.Took.Round(1e6))
				return err
			})
		},
	}
}
