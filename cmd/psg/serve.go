package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"
	"golang.org/x/sync/errgroup"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/bus"
	"github.com/psgrid/psg/bus/server"
	"github.com/psgrid/psg/controller"
	"github.com/psgrid/psg/internal/heap"
	"github.com/psgrid/psg/ledger"
	"github.com/psgrid/psg/policies"
	"github.com/psgrid/psg/policies/poll"
	"github.com/psgrid/psg/rpc"
	"github.com/psgrid/psg/shim"
	"github.com/psgrid/psg/telemetry"
)

// serveConfig is what a controller process is made of.
type serveConfig struct {
	name            string
	dataDir         string         // of the embedded bus
	natsListen      string         // of the embedded bus
	cluster         server.Cluster // of the embedded buses of several controllers
	natsURLs        []string       // of an external bus
	natsCredentials string
	natsReplicas    int
	guard           natsGuard // of the embedded bus; its TLS also towards an external one
	bundle          string
	policyKey       policies.Key // that the bundle must be signed with; the zero key for none
	variables       varFlags     // of the bundle
	grpc, http      string
	advertiseGRPC   string // where others reach grpc; the address it listens on if empty
	advertiseHTTP   string // where others reach http; likewise
	tls             *tls.Config
	tokens          *rpc.Guard    // of both faces; nil asks nobody
	improve         time.Duration // between two looks for moves that pay; 0 means never
	nomad           *api.Client   // nil means no Nomad: nodes and workloads are reported by the caller
	access          *shim.Access  // what nomad goes through, if anything tells
	namespaces      []string      // where jobs are placed; all if empty
	log             *slog.Logger

	// ready is told what serves once it does, if set.
	ready func(*running)
	// inspect may change or add to what the Nomad watcher reports, if set.
	inspect func([]psg.Delta) []psg.Delta
}

// running is a controller that serves.
type running struct {
	controller *controller.Controller
	grpc, http net.Addr
	natsURL    string
}

func (c serveConfig) validate() error {
	switch {
	case c.bundle == "":
		return errors.New("-bundle is needed")
	case c.dataDir == "" && len(c.natsURLs) == 0:
		return errors.New("-data-dir or -nats is needed")
	case c.dataDir != "" && len(c.natsURLs) > 0:
		return errors.New("-data-dir and -nats exclude each other")
	}
	return nil
}

// serve runs a controller until ctx ends or a part of it fails. A signal on
// reload loads the policies anew.
func serve(ctx context.Context, config serveConfig, reload <-chan os.Signal) error {
	rules, err := newRulebook(config.bundle, policies.Config{Key: config.policyKey, Variables: config.variables, Log: config.log})
	if err != nil {
		return err
	}
	transport, natsURL, closeBus, err := config.openBus(ctx)
	if err != nil {
		return err
	}
	defer closeBus()

	grpcListener, err := net.Listen("tcp", config.grpc)
	if err != nil {
		return fmt.Errorf("gRPC face: %w", err)
	}
	httpListener, err := net.Listen("tcp", config.http)
	if err != nil {
		grpcListener.Close()
		return fmt.Errorf("REST face: %w", err)
	}
	self := config.self(grpcListener.Addr(), httpListener.Addr())
	head := &anchor{log: config.log}
	var decider *controller.Controller
	var agents *controller.Agents
	decider, err = controller.New(transport.Ledger(), rules.inForce, config.jobs(), controller.Config{
		Name:   config.name,
		Log:    config.log,
		Lease:  transport.Lease(self, bus.LeaseTTL),
		Images: transport.Images(),

		Improvement: controller.Improvement{Every: config.improve},
		Orders: func(order psg.Order) {
			if err := transport.PublishOrder(order); err != nil {
				config.log.Warn("order not published", "error", err)
			}
		},
		Duties: func(ctx context.Context) error { return config.lead(ctx, decider, agents, transport, rules, head) },
	})
	if err != nil {
		grpcListener.Close()
		httpListener.Close()
		return err
	}

	agents = controller.NewAgents(decider, transport.PublishOrder)
	windows := telemetry.NewWindows()

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return ended(ctx, heap.Spend(ctx)) })
	group.Go(func() error { return ended(ctx, decider.Run(ctx)) })
	group.Go(func() error { return ended(ctx, transport.WatchReports(ctx, agents.Reported)) })
	group.Go(func() error {
		return rpc.NewServer(decider, decider).Moving(decider).Preempting(decider).Guarded(config.tokens).Serve(ctx, grpcListener, config.tls)
	})
	group.Go(func() error {
		return rpc.ServeREST(ctx, httpListener, config.guarded(withPolicies(withRegistrations(withOrders(rpc.REST(config.reader(decider), head, rules, steeringOf(decider), reportMetrics{agents}, heard{windows}), agents), decider, config.namespaces), rules, decider, config.log)))
	})
	group.Go(func() error { return ended(ctx, observe(ctx, transport, windows, decider.Observe, config.log)) })
	group.Go(func() error { return reloading(ctx, reload, rules, config.log, decider) })
	group.Go(func() error { return ended(ctx, poll.New(rules.store, poll.Config{Log: config.log}).Run(ctx)) })
	config.warnExposed(grpcListener.Addr(), httpListener.Addr())
	config.log.Info("serving", "grpc", grpcListener.Addr(), "http", httpListener.Addr())
	if config.ready != nil {
		config.ready(&running{decider, grpcListener.Addr(), httpListener.Addr(), natsURL})
	}
	return group.Wait()
}

// lead does what only the leader does beside its cycles: it audits, entrusts
// agents, watches Nomad, which it lists anew, and steers.
func (c serveConfig) lead(ctx context.Context, decider *controller.Controller, agents *controller.Agents, transport *bus.Bus, rules *rulebook, head *anchor) error {
	if err := rules.report(ctx, decider); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return ended(ctx, transport.Audit().Project(ctx, ledger.Audit, head.note)) })
	group.Go(func() error { return ended(ctx, agents.Entrust(ctx)) })
	if c.nomad != nil {
		group.Go(func() error { return ended(ctx, c.watch(ctx, decider)) })
		group.Go(func() error { return ended(ctx, decider.Steer(ctx, shim.NewEnactor(c.nomad))) })
		group.Go(func() error { return ended(ctx, decider.MakeWay(ctx, shim.NewEnactor(c.nomad))) })
		group.Go(func() error { return ended(ctx, decider.Improve(ctx)) })
	}
	return group.Wait()
}

// self is how others reach this controller.
func (c serveConfig) self(grpc, http net.Addr) psg.Leader {
	return psg.Leader{
		Name: c.name,
		GRPC: cmp.Or(c.advertiseGRPC, grpc.String()),
		HTTP: cmp.Or(c.advertiseHTTP, http.String()),
	}
}

// reader is what the REST face shows: what the controller knows, and what it
// cannot do.
func (c serveConfig) reader(decider *controller.Controller) rpc.Reader {
	if c.access == nil {
		return decider
	}
	return struct {
		*controller.Controller
		rpc.Troubled
	}{decider, c.access}
}

// jobs finds workloads in Nomad, or nowhere without one.
func (c serveConfig) jobs() controller.Jobs {
	if c.nomad == nil {
		return noJobs{}
	}
	if len(c.namespaces) > 0 {
		return scopedJobs{shim.NewJobs(c.nomad), c.namespaces}
	}
	return shim.NewJobs(c.nomad)
}

// scopedJobs are those of some namespaces: gates in others are told so, until their
// allocations are seen and counted as Nomad's own, which opens them.
type scopedJobs struct {
	controller.Jobs
	namespaces []string
}

func (j scopedJobs) Workload(ctx context.Context, id psg.WorkloadID) (psg.Workload, error) {
	if !slices.Contains(j.namespaces, id.Namespace) {
		return psg.Workload{}, fmt.Errorf("namespace %q is none in which PSG places jobs: %w", id.Namespace, psg.ErrUnknown)
	}
	return j.Jobs.Workload(ctx, id)
}

// split is a comma-separated list, of which spaces are no part; nothing is none.
func split(text string) (list []string) {
	for one := range strings.SplitSeq(text, ",") {
		if one = strings.TrimSpace(one); one != "" {
			list = append(list, one)
		}
	}
	return list
}

type noJobs struct{}

func (noJobs) Workload(_ context.Context, id psg.WorkloadID) (psg.Workload, error) {
	return psg.Workload{}, fmt.Errorf("%w: it was never submitted", psg.ErrUnknown)
}

// watch follows Nomad and reports what it sees.
func (c serveConfig) watch(ctx context.Context, decider *controller.Controller) error {
	config := shim.WatchConfig{Namespaces: c.namespaces, Before: remembered(decider), Counted: func() shim.Remembered { return registeredWork(decider) }}
	return shim.NewWatcher(c.nomad, reporter{decider, c.inspect}, c.log, config).Run(ctx)
}

// remembered is what the ledger says that Nomad has: some of it may have gone
// while no controller led.
func remembered(decider *controller.Controller) (before shim.Remembered) {
	view := decider.Snapshot()
	for i := range view.Nodes {
		before.Nodes = append(before.Nodes, view.Nodes[i].ID)
	}
	for i := range view.Workloads {
		before.Workloads = append(before.Workloads, view.Workloads[i].ID)
	}
	before.Allocs = registeredWork(decider).Allocs
	return before
}

// registeredWork are the workloads and allocations that Nomad has told of, or has
// had the time to: those but what is planned, and about to be registered.
func registeredWork(decider *controller.Controller) (now shim.Remembered) {
	planned := map[psg.WorkloadID]bool{}
	for _, status := range decider.Asks() {
		switch {
		case status.Over():
		case status.Ask.Alloc != "":
			now.Allocs = append(now.Allocs, status.Ask.Alloc)
		default:
			planned[status.Ask.Workload] = true
		}
	}
	view := decider.Snapshot()
	for i := range view.Workloads {
		if w := &view.Workloads[i]; w.Version > 0 || !planned[w.ID] {
			now.Workloads = append(now.Workloads, w.ID)
		}
	}
	return now
}

// reporter hands the controller what the watcher sees.
type reporter struct {
	decider *controller.Controller
	inspect func([]psg.Delta) []psg.Delta
}

func (r reporter) Deltas(ctx context.Context, deltas []psg.Delta) error {
	if r.inspect != nil {
		deltas = r.inspect(deltas)
	}
	return r.decider.Report(ctx, deltas)
}
