package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/psgrid/psg"
)

func nodeOrderCommand() *command {
	var at address
	var out output
	var order psg.Order
	var alloc string
	return &command{
		name: "node order", args: "[-alloc ALLOC] [options] NODE throttle|freeze|thaw|evict|drain",
		ids:      nodeIDs,
		synopsis: "Have a node's agent throttle, freeze or evict",
		help: `
Gives one order to a node's agent and prints its report. throttle and freeze hold
for the time of -for, at most an hour and ten minutes, and are undone then; thaw
undoes them sooner, and without -alloc all that is held back on the node, and drain.
evict ends an allocation, within -for: through Nomad where Nomad runs it, since it
would start again what is ended behind its back. drain says that the node is to be
left, and with -for has the agent end what is still there by then; psg node
rebalance -empty moves what can be moved.

Fails if the agent refuses the order or cannot carry it out.`,
		define: func(flags *flag.FlagSet) {
			at.define(flags)
			out.define(flags)
			flags.StringVar(&alloc, "alloc", "", "`ID` of the allocation")
			flags.Int64Var(&order.Limit[psg.CPU], "cpu", 0, "`MHz` to throttle it to")
			flags.Int64Var(&order.Limit[psg.Memory], "memory", 0, "`MiB` to throttle it to")
			flags.Int64Var(&order.Limit[psg.IOPS], "iops", 0, "read and write `operations` a second, each, to throttle it to")
			flags.DurationVar(&order.Deadline, "for", 0, "`time` that it holds, or may take; 0 is the agent's default")
		},
		run: func(c *command, args []string) error {
			if len(args) != 2 {
				return usagef("want a node ID and what to do, have %d words", len(args))
			}
			client, err := at.client()
			if err != nil {
				return usageError{err}
			}
			node, err := client.Node(c.ctx, args[0])
			if err != nil {
				return err
			}
			order.Node, order.Alloc, order.Kind = node.ID, psg.AllocID(alloc), psg.OrderKind(args[1])
			report, err := giveOrder(c.ctx, at, order)
			if err != nil {
				return err
			}
			if err := out.print(c.stdout, report, func(w io.Writer) error { return listReports(w, []psg.Report{report}) }); err != nil {
				return err
			}
			if report.State == psg.ReportRefused || report.State == psg.ReportFailed {
				return errNo
			}
			return nil
		},
	}
}

func giveOrder(ctx context.Context, at address, order psg.Order) (report psg.Report, err error) {
	return report, at.ask(ctx, askWithin, nodePath(order.Node, "order"), order, &report)
}

func nodePath(node psg.NodeID, what string) string {
	return "/v1/node/" + url.PathEscape(string(node)) + "/" + what
}

func nodeReportsCommand() *command {
	var at address
	var out output
	return &command{
		name: "node reports", args: "[-json | -t TEMPLATE] NODE",
		ids:      nodeIDs,
		synopsis: "Show what a node's agent did last",
		help: `
Prints the last reports of a node's agent that the controller has heard, the oldest
first: how orders ended, and whom the agent throttled by itself for the sake of
whom.`,
		define: func(flags *flag.FlagSet) {
			out.define(flags)
			at.define(flags)
		},
		run: func(c *command, args []string) error {
			if len(args) != 1 {
				return usagef("want one node ID, have %d", len(args))
			}
			client, err := at.client()
			if err != nil {
				return usageError{err}
			}
			node, err := client.Node(c.ctx, args[0])
			if err != nil {
				return err
			}
			reports, err := readReports(c.ctx, at, node.ID)
			if err != nil {
				return err
			}
			return out.print(c.stdout, reports, func(w io.Writer) error { return listReports(w, reports) })
		},
	}
}

func readReports(ctx context.Context, at address, node psg.NodeID) (reports []psg.Report, err error) {
	return reports, at.ask(ctx, askWithin, nodePath(node, "reports"), nil, &reports)
}

func listReports(w io.Writer, reports []psg.Report) error {
	p := &printer{w: w}
	p.line("At\tOrder\tBy\tAllocation\tState\tUntil\tReason")
	for _, r := range reports {
		by, until := fmt.Sprintf("%d/%d", r.Epoch, r.Sequence), ""
		if r.Unasked {
			by = "itself"
		}
		if !r.Until.IsZero() {
			until = r.Until.Format(time.TimeOnly)
		}
		p.line("%s\t%s\t%s\t%.8s\t%s\t%s\t%s", r.At.Format(time.RFC3339), r.Kind, by, word(r.Alloc), r.State, until, word(r.Reason))
	}
	return p.err
}
