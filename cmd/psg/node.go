package main

import (
	"flag"
	"fmt"
	"io"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/rpc"
)

func nodeStatusCommand() *command {
	var out output
	var at address
	return &command{
		name: "node status", args: "[-json | -t TEMPLATE] [NODE]",
		synopsis: "List the nodes PSG places on, or show one",
		help: `
Without NODE, a line for each node. With a node ID, or the beginning of one,
its capacity, cards and last telemetry.`,
		define: func(flags *flag.FlagSet) {
			out.define(flags)
			at.define(flags)
		},
		run: func(c *command, args []string) error {
			client, err := at.client()
			if err != nil {
				return usageError{err}
			}
			switch len(args) {
			case 0:
				nodes, err := client.Nodes(c.ctx)
				if err != nil {
					return err
				}
				return out.print(c.stdout, nodes, func(w io.Writer) error { return listNodes(w, nodes) })
			case 1:
				node, err := client.Node(c.ctx, args[0])
				if err != nil {
					return err
				}
				return out.print(c.stdout, node, func(w io.Writer) error { return showNode(w, node) })
			}
			return usagef("want at most one node, have %d", len(args))
		},
	}
}

func listNodes(w io.Writer, nodes []psg.Node) error {
	p := &printer{w: w}
	p.line("ID\tName\tDatacenter\tReady\tCPU MHz\tMemory MiB\tCards")
	for _, n := range nodes {
		p.line("%.8s\t%s\t%s\t%t\t%d\t%d\t%d", n.ID, n.Name, n.Datacenter, n.Ready,
			n.Capacity[psg.CPU], n.Capacity[psg.Memory], len(n.Devices))
	}
	return p.err
}

func showNode(w io.Writer, n psg.Node) error {
	p := &printer{w: w}
	p.line("ID\t%s", n.ID)
	p.line("Name\t%s", n.Name)
	p.line("Datacenter\t%s", n.Datacenter)
	p.line("Ready\t%t", n.Ready)
	p.line("Capacity\t%s", n.Capacity)
	for _, d := range n.Devices {
		p.line("Card\t%s %s/%s/%s %d MiB healthy=%t", d.ID, d.Vendor, d.Type, d.Model, d.MemoryMB, d.Healthy)
	}
	if n.Telemetry != nil {
		p.line("Measured\t%s", n.Telemetry.At)
		for _, name := range sortedKeys(n.Telemetry.Metrics) {
			stats := n.Telemetry.Metrics[name]
			p.line("  %s\tlast %.2f  mean %.2f  p95 %.2f  max %.2f", name, stats.Last, stats.Mean, stats.P95, stats.Max)
		}
	}
	return p.err
}

func statusCommand() *command {
	var out output
	var at address
	return &command{
		name: "status", args: "[-json | -t TEMPLATE]",
		synopsis: "Say which controller leads, and what its ledger's last record is",
		help:     "Prints the epoch, the last committed record that the controller knows, whether it leads, who does, and what\nNomad refuses it or fails at (Trouble lines).\nFails if nobody is known to.",
		define: func(flags *flag.FlagSet) {
			out.define(flags)
			at.define(flags)
		},
		run: func(c *command, args []string) error {
			if len(args) > 0 {
				return usagef("unexpected %q", args[0])
			}
			client, err := at.client()
			if err != nil {
				return usageError{err}
			}
			position, err := client.Status(c.ctx)
			if err != nil {
				return err
			}
			if err := out.print(c.stdout, position, func(w io.Writer) error { return showPosition(w, position) }); err != nil {
				return err
			}
			if !position.Leading && position.Leader.Name == "" {
				return errNo
			}
			return nil
		},
	}
}

func showPosition(w io.Writer, position rpc.Position) error {
	_, err := fmt.Fprintf(w, "Leading\t%t\nLeader\t%s\ngRPC\t%s\nREST\t%s\nEpoch\t%d\nLast record\t%d\n",
		position.Leading, position.Leader.Name, position.Leader.GRPC, position.Leader.HTTP, position.Epoch, position.Sequence)
	for _, trouble := range position.Troubles {
		if err == nil {
			_, err = fmt.Fprintf(w, "Trouble\t%s\n", trouble)
		}
	}
	return err
}

func versionCommand() *command {
	return &command{
		name: "version", synopsis: "Print the version", help: "Prints the version of this program.",
		run: func(c *command, args []string) error {
			if len(args) > 0 {
				return usagef("unexpected %q", args[0])
			}
			_, err := fmt.Fprintln(c.stdout, "psg", version)
			return err
		},
	}
}
