package main

import (
	"flag"
	"fmt"
	"io"

	"github.com/psgrid/psg/sim"
)

func simulateOpenbCommand() *command {
	var replay sim.Openb
	var mix string
	var out output
	return &command{
		name: "simulate openb", args: "-nodes FILE -pods FILE -sequence FILE -out FILE [options]",
		synopsis: "Replay the openb GPU cluster trace through the placement engine",
		help: `
Replays the pods of Alibaba's cluster-trace-gpu-v2023 in the order of -sequence
on the nodes of -nodes, one attempt each, with the engine and the weights that a
controller uses. Writes node and cards of each arrival to -out, and prints how
much of the GPU capacity was placed.`,
		define: func(flags *flag.FlagSet) {
			out.define(flags)
			flags.StringVar(&replay.Nodes, "nodes", "", "CSV `file` of nodes")
			flags.StringVar(&replay.Pods, "pods", "", "CSV `file` of pods")
			flags.StringVar(&replay.Sequence, "sequence", "", "`file` of pod row numbers in the order of arrival; may be gzipped")
			flags.StringVar(&replay.Out, "out", "", "`file` to write: node_name,gpu_ids for each arrival")
			flags.StringVar(&mix, "mix", "learned", "`whether` the trace's mix of pods is \"known\" from the start or \"learned\" while they arrive")
			flags.IntVar(&replay.MovesPercent, "moves", 0, "placements that may move, in `percent` of the pods that arrived")
		},
		run: func(c *command, args []string) error {
			switch {
			case len(args) > 0:
				return usagef("unexpected %q", args[0])
			case replay.Nodes == "" || replay.Pods == "" || replay.Sequence == "" || replay.Out == "":
				return usagef("-nodes, -pods, -sequence and -out are needed")
			case mix != "known" && mix != "learned":
				return usagef("-mix %q is neither known nor learned", mix)
			case replay.MovesPercent < 0 || replay.MovesPercent > 100:
				return usagef("-moves %d is outside 0..100", replay.MovesPercent)
			}
			replay.KnowMix = mix == "known"
			result, err := replay.Run()
			if err != nil {
				return err
			}
			return out.print(c.stdout, result, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "GPU allocation\t%.2f %%\nPlaced\t%d of %d arrivals\nMoved\t%d\nTook\t%s\n",
					result.AllocationPercent(), result.Placed, result.Arrivals, result.Moved, result.Took.Round(1e6))
				return err
			})
		},
	}
}
