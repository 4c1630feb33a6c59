package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/psgrid/psg"
)

func nodeStatusCommand() *command {
	var out output
	var at address
	var verbose, live bool
	return &command{
		name: "node status", args: "[-json | -t TEMPLATE | -live] [-verbose] [NODE]",
		ids:      nodeIDs,
		synopsis: "List the nodes PSG places on, or show one",
		help: `
Without NODE, a line for each node. With a node ID, or the beginning of one,
its capacity, its cards, what was measured there over the last 10 s, what its
allocations use, and the forecast for the next 5 minutes: what use is expected to
be, and what it stays below, 95 times of 100.

With -live the measurements are shown anew each second, with the last minute as
a line of bars, until q or Ctrl-C is pressed; elsewhere than in a terminal -live
changes nothing. -verbose shows full IDs, whether agents are short of CPU, and
the windows of 60 s and 5 m.`,
		define: func(flags *flag.FlagSet) {
			out.define(flags)
			at.define(flags)
			flags.BoolVar(&verbose, "verbose", false, "show more columns and longer windows")
			flags.BoolVar(&live, "live", false, "show what is measured anew each second")
		},
		run: func(c *command, args []string) error {
			client, err := at.client()
			if err != nil {
				return usageError{err}
			}
			switch {
			case len(args) > 1:
				return usagef("want at most one node, have %d", len(args))
			case live && !out.people():
				return usagef("-live excludes -json and -t")
			}
			read := func() ([]psg.Node, error) { return client.Nodes(c.ctx) }
			if len(args) == 1 {
				read = func() ([]psg.Node, error) {
					node, err := client.Node(c.ctx, args[0])
					return []psg.Node{node}, err
				}
			}
			if screen, ok := terminal(c.stdout); live && ok {
				return watchNodes(c.ctx, screen, os.Stdin, read)
			}
			nodes, err := read()
			if err != nil {
				return err
			}
			if len(args) == 1 {
				return out.print(c.stdout, nodes[0], func(w io.Writer) error { return showNode(w, nodes[0], verbose) })
			}
			return out.print(c.stdout, nodes, func(w io.Writer) error { return listNodes(w, nodes, verbose) })
		},
	}
}

func listNodes(w io.Writer, nodes []psg.Node, verbose bool) error {
	p := &printer{w: w}
	if !verbose {
		p.line("ID\tName\tDatacenter\tReady\tCPU MHz\tMemory MiB\tCards")
		for _, n := range nodes {
			p.line("%.8s\t%s\t%s\t%t\t%d\t%d\t%d", word(n.ID), word(n.Name), word(n.Datacenter), n.Ready,
				n.Capacity[psg.CPU], n.Capacity[psg.Memory], len(n.Devices))
		}
		return p.err
	}
	p.line("ID\tName\tDatacenter\tReady\tCPU MHz\tMemory MiB\tCards\tCPU %%\tUsed MiB\tAgent\tMeasured")
	for _, n := range nodes {
		p.line("%s\t%s\t%s\t%t\t%d\t%d\t%d\t%s\t%s\t%s\t%s", word(n.ID), word(n.Name), word(n.Datacenter), n.Ready,
			n.Capacity[psg.CPU], n.Capacity[psg.Memory], len(n.Devices),
			mean(n.Telemetry, "cpu_percent"), mean(n.Telemetry, "memory_used_mb"), agentState(n.Telemetry), measured(n.Telemetry))
	}
	return p.err
}

// mean is that of a metric over the last 10 s.
func mean(t *psg.Telemetry, metric string) string {
	if t == nil {
		return "-"
	}
	stats, ok := t.Metrics[metric]
	if !ok {
		return "-"
	}
	return fmt.Sprintf("%.1f", stats.Mean)
}

func agentState(t *psg.Telemetry) string {
	switch {
	case t == nil:
		return "-"
	case len(t.Metrics) == 0:
		return "silent"
	case t.Metrics["agent_degraded"].Last > 0:
		return "degraded"
	}
	return "ok"
}

func measured(t *psg.Telemetry) string {
	if t == nil {
		return "never"
	}
	return t.At.Format(time.RFC3339)
}

func showNode(w io.Writer, n psg.Node, verbose bool) error {
	p := &printer{w: w}
	p.line("ID\t%s", word(n.ID))
	p.line("Name\t%s", word(n.Name))
	p.line("Datacenter\t%s", word(n.Datacenter))
	p.line("Ready\t%t", n.Ready)
	p.line("Capacity\t%s", n.Capacity)
	for _, d := range n.Devices {
		p.line("Card\t%s %s/%s/%s %d MiB healthy=%t%s", word(d.ID), word(d.Vendor), word(d.Type), word(d.Model), d.MemoryMB, d.Healthy, whereabouts(d))
	}
	p.line("Agent\t%s", agentState(n.Telemetry))
	p.line("Measured\t%s", measured(n.Telemetry))
	if n.Projection != nil {
		p.line("Forecast\texpected %s", n.Projection.Mean)
		p.line("\tat most %s", n.Projection.Upper)
	}
	if n.Telemetry != nil {
		showMetrics(p, n.Telemetry, verbose)
		showAllocs(p, n.Telemetry.Allocs)
	}
	return p.err
}

// whereabouts is what else is known of a card.
func whereabouts(d psg.Device) (text string) {
	if d.NUMA >= 0 {
		text += fmt.Sprintf(" numa=%d", d.NUMA)
	}
	if d.Link != "" {
		text += " link=" + word(d.Link)
	}
	if why := d.Attributes["health"]; why != "" {
		text += " (" + word(why) + ")"
	}
	return text
}

func showMetrics(p *printer, t *psg.Telemetry, verbose bool) {
	p.line("\nMetric\tLast\tMean\tp50\tp95\tp99\tMax")
	for _, name := range sortedKeys(t.Metrics) {
		s := t.Metrics[name]
		p.line("%s\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f", word(name), s.Last, s.Mean, s.P50, s.P95, s.P99, s.Max)
		if verbose {
			showWindow(p, "over 60 s", s.Over60s)
			showWindow(p, "over 5 m", s.Over5m)
		}
	}
}

func showWindow(p *printer, name string, s *psg.Summary) {
	if s != nil {
		p.line("  %s\t\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f", name, s.Mean, s.P50, s.P95, s.P99, s.Max)
	}
}

func showAllocs(p *printer, allocs []psg.AllocTelemetry) {
	if len(allocs) == 0 {
		return
	}
	p.line("\nAllocation\tMetric\tLast\tMean\tp95\tMax")
	for _, a := range allocs {
		for _, name := range sortedKeys(a.Metrics) {
			u := a.Metrics[name]
			p.line("%s\t%s\t%.2f\t%.2f\t%.2f\t%.2f", word(a.Alloc), word(name), u.Last, u.Mean, u.P95, u.Max)
		}
		if a.Projection != nil {
			p.line("%s\tforecast\texpected %s, at most %s", word(a.Alloc), a.Projection.Mean, a.Projection.Upper)
		}
	}
}
