// Command psg-agent measures its node and the workloads on it, and publishes what
// it measured to PSG's bus.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/agent"
	"github.com/psgrid/psg/bus"
)

// The exit codes.
const (
	exitOK      = 0
	exitFailure = 1 // it could not run, or -check found that nothing can be measured
	exitUsage   = 2 // the command line is wrong
)

func main() {
	stayLean()
	comeFirst()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends what does not heed the first
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

const usage = `Usage: psg-agent -node ID -nats URL [options]
       psg-agent -check
       psg-agent -undo -node ID

Measures this node and the workloads on it every 200 ms and publishes what
changed, until it is interrupted. After the bus was away it says all again, with
what the last five minutes were like. With -check it prints what can be measured
here, the control groups and what each workload uses, and exits 1 if CPU or
memory cannot be measured.

It carries out the leader's orders, throttle, freeze, thaw, evict and drain, and
within the leader's mandate throttles whoever harms its neighbours. What it holds
back it lets go when its time is over, or when it ends; -undo lets go what an agent
left behind that was killed.

Options:
`

// run is the whole program: it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var o options
	flags := o.flags(stderr)
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return exitUsage // flags have printed why
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "psg-agent: unexpected %q\n", flags.Arg(0))
		return exitUsage
	}
	if o.orders.undo {
		return exitCode(stderr, o.orders.undoAll(o.ordersConfig(slog.New(slog.NewTextHandler(stderr, nil)))))
	}
	if err := o.sources.take(o.proc, o.sys); err != nil {
		fmt.Fprintf(stderr, "psg-agent: %v\n", err)
		return exitUsage
	}
	if o.check {
		return exitCode(stderr, check(ctx, o.config(nil), stdout))
	}
	security, err := bus.ClientTLS(o.tls.ca, o.tls.cert, o.tls.key)
	if err != nil {
		fmt.Fprintf(stderr, "psg-agent: %v\n", err)
		return exitUsage
	}
	if err := bus.CheckCredentials(o.credentials); err != nil {
		fmt.Fprintf(stderr, "psg-agent: -nats-creds: %v\n", err)
		return exitUsage
	}
	log := slog.New(slog.NewTextHandler(stderr, nil))
	link := &link{config: bus.Config{
		Name:        "psg-agent " + o.node,
		URLs:        split(o.nats),
		Credentials: o.credentials,
		TLS:         security,
		Log:         log,
	}}
	defer link.close()
	config := o.config(log)
	if err := cmp.Or(config.Validate(), o.validate(), link.config.Validate()); err != nil {
		fmt.Fprintf(stderr, "psg-agent: %v\n", err)
		return exitUsage
	}
	orders, err := o.orders.take(o.ordersConfig(log), link.config)
	if err != nil {
		return exitCode(stderr, err)
	}
	config.Orders = orders.takes()
	a, err := agent.New(config, link)
	if err != nil {
		return exitCode(stderr, err)
	}
	metrics, err := o.listenMetrics(log)
	if err != nil {
		return exitCode(stderr, err)
	}
	log.Info("agent runs", "node", o.node, "interval", o.interval, "nats", link.config.Servers())
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return a.Run(ctx) })
	group.Go(func() error { return orders.run(ctx) })
	if metrics != nil {
		group.Go(func() error { return serveMetrics(ctx, metrics, a) })
	}
	group.Go(func() error {
		if err := forgetStart(ctx); err != nil {
			log.Warn("the start's memory is kept", "error", err)
		}
		return nil
	})
	return exitCode(stderr, group.Wait())
}

type options struct {
	node, nats, credentials string
	tls                     struct{ ca, cert, key string } // towards the bus
	proc, sys, cgroup       string
	interval, slowInterval  time.Duration
	check                   bool
	metrics                 string
	orders                  orderOptions
	sources                 sourceOptions
}

// validate refuses what the parts that are made from the options cannot know.
func (o *options) validate() error {
	if o.nats == "" {
		return errors.New("no -nats: the URL of the bus, such as nats://127.0.0.1:4222")
	}
	return o.orders.validate()
}

func (o *options) ordersConfig(log *slog.Logger) agent.OrdersConfig {
	return agent.OrdersConfig{Node: psg.NodeID(o.node), Proc: o.proc, Sys: o.sys, Log: log}
}

func (o *options) config(log *slog.Logger) agent.Config {
	return agent.Config{
		Node: psg.NodeID(o.node), Proc: o.proc, Sys: o.sys, Cgroup: o.cgroup, Interval: o.interval, SlowInterval: o.slowInterval, Log: log,
		Sources: o.sources.taken,
	}
}

func (o *options) flags(stderr io.Writer) *flag.FlagSet {
	flags := flag.NewFlagSet("psg-agent", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.node, "node", "", "`ID` of this node, as the orchestrator knows it")
	flags.StringVar(&o.nats, "nats", "", "comma-separated `URLs` of the bus's NATS servers")
	flags.StringVar(&o.credentials, "nats-creds", "", "NATS credentials `file`, such as psg bus credentials issues")
	flags.StringVar(&o.tls.ca, "nats-tls-ca", "", "PEM `file` of the authorities of the NATS servers' certificates")
	flags.StringVar(&o.tls.cert, "nats-tls-cert", "", "PEM `file` of a certificate to show to them")
	flags.StringVar(&o.tls.key, "nats-tls-key", "", "PEM `file` of its key")
	flags.DurationVar(&o.interval, "interval", 200*time.Millisecond, "`time` between collections")
	flags.DurationVar(&o.slowInterval, "slow-interval", 0, "`time` between collections while the node is short of CPU (default 2s, or -interval if longer)")
	flags.StringVar(&o.proc, "proc", "/proc", "`directory` of the proc file system, such as the host's in a container")
	flags.StringVar(&o.sys, "sys", "/sys", "`directory` of the sys file system")
	flags.StringVar(&o.cgroup, "cgroup", "", "`directory` where control groups are mounted (default \"fs/cgroup\" below -sys)")
	o.orders.define(flags)
	o.sources.define(flags)
	flags.StringVar(&o.metrics, "metrics", metricsAddress, "`address` on which Prometheus finds GET /metrics; empty for none")
	flags.BoolVar(&o.check, "check", false, "print what can be measured on this node, and exit")
	flags.Usage = func() {
		fmt.Fprint(stderr, usage)
		flags.PrintDefaults()
	}
	return flags
}

func split(urls string) []string {
	if urls == "" {
		return nil
	}
	return strings.Split(urls, ",")
}

func exitCode(stderr io.Writer, err error) int {
	if err != nil {
		fmt.Fprintf(stderr, "psg-agent: %v\n", err)
		return exitFailure
	}
	return exitOK
}
