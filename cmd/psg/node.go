package main

import (
	"flag"
	"fmt"
	"io"

	"github.com/psgrid/psg/rpc"
)

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
