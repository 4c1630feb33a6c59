package controller

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/bus"
	"github.com/psgrid/psg/bus/server"
	"github.com/psgrid/psg/policies"
)

const testTTL = 500 * time.Millisecond

// peer is one of several controllers on one bus.
type peer struct {
	*Controller
	orders chan psg.Order
	lease  *gatedLease
	halt   func() // as a killed process: gives nothing up
}

// gatedLease can be cut off from the bus.
type gatedLease struct {
	Lease
	mu  sync.Mutex
	cut bool
}

func (l *gatedLease) sever(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
}

func (l *gatedLease) severed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cut
}

func (l *gatedLease) Take(ctx context.Context) (psg.Lease, error) {
	if l.severed() {
		return psg.Lease{}, psg.ErrUnavailable
	}
	return l.Lease.Take(ctx)
}

func (l *gatedLease) Give(ctx context.Context) error {
	if l.severed() {
		return psg.ErrUnavailable
	}
	return l.Lease.Give(ctx)
}

// join runs a controller on a bus until the test ends.
func join(t *testing.T, on *server.Server, name string, known jobs) *peer {
	t.Helper()
	transport, err := bus.Connect(bus.Config{Server: on, Name: name, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := transport.CreateStreams(t.Context()); err != nil {
		t.Fatal(err)
	}
	rules, err := policies.Load("../policies/library/gpu_colocation")
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{
		orders: make(chan psg.Order, 1000),
		lease:  &gatedLease{Lease: transport.Lease(psg.Leader{Name: name, GRPC: name + ":1"}, testTTL)},
	}
	p.Controller, err = New(transport.Ledger(), always(rules), known, Config{
		Name: name, Log: slog.New(slog.DiscardHandler), Period: 5 * time.Millisecond,
		Lease: p.lease, Renew: testTTL / 10,
		Orders: func(o psg.Order) { p.orders <- o },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- p.Run(ctx) }()
	p.halt = sync.OnceFunc(func() {
		stop()
		if err := <-ran; err != nil {
			t.Error(err)
		}
		transport.Close()
	})
	t.Cleanup(p.halt)
	return p
}

func startServer(t *testing.T) *server.Server {
	t.Helper()
	on, err := server.Start(server.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(on.Close)
	return on
}

// await polls until done.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for retry := time.NewTicker(time.Millisecond); !done(); {
		select {
		case <-deadline:
			t.Fatalf("not within 20 s: %s", what)
		case <-retry.C:
		}
	}
}

func (p *peer) leading() bool { _, _, leading := p.Position(); return leading }

func TestRun_StandbyFollowsAndTakesOver(t *testing.T) {
	on, web := startServer(t), workload("web", "service", 64)
	first := join(t, on, "first", jobs{web.ID: web})
	await(t, "first leads", first.leading)
	second := join(t, on, "second", jobs{web.ID: web})
	if err := first.Report(t.Context(), []psg.Delta{psg.NodeChanged{Node: testNode("n1")}}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := first.Place(t.Context(), []psg.Ask{gate(web, "a1", "n1")}, 0); err != nil {
		t.Fatal(err)
	}
	await(t, "second has seen the grant", func() bool {
		status, _ := second.Ask("a1")
		return status.State == psg.Granted && second.Leader().Name == "first"
	})
	_, _, err := second.Place(t.Context(), []psg.Ask{gate(web, "a2", "n1")}, 0)
	var elsewhere *psg.NotLeaderError
	if !errors.As(err, &elsewhere) || elsewhere.Leader.GRPC != "first:1" {
		t.Errorf("standby answered %v, want where the leader is", err)
	}

	first.lease.sever(true) // a killed process gives nothing up
	first.halt()
	killed := time.Now()
	await(t, "second leads", second.leading)
	if took := time.Since(killed); took > 3*testTTL {
		t.Errorf("takeover took %s with a lease of %s", took, testTTL)
	}
	orders, _, err := second.Place(t.Context(), []psg.Ask{gate(web, "a1", "n1"), gate(web, "a2", "n1")}, 0)
	if err != nil || orders[0].Kind != psg.Grant || orders[1].Kind != psg.Grant || orders[1].Epoch != 2 {
		t.Errorf("orders = %+v, %v, want the old grant and a new one", orders, err)
	}
}

func TestRun_GivesTheLeaseUpWhenItEnds(t *testing.T) {
	on := startServer(t)
	first := join(t, on, "first", nil)
	await(t, "first leads", first.leading)
	second := join(t, on, "second", nil)
	await(t, "second follows", func() bool { return second.Leader().Name == "first" })
	first.halt()
	ended := time.Now()
	await(t, "second leads", second.leading)
	if took := time.Since(ended); took > testTTL*4/5 {
		t.Errorf("takeover took %s although the lease was given up", took)
	}
}

func TestRun_StopsBeforeALeaseItCannotRenewIsTaken(t *testing.T) {
	on, web := startServer(t), workload("web", "service", 64)
	first := join(t, on, "first", jobs{web.ID: web})
	await(t, "first leads", first.leading)
	second := join(t, on, "second", nil)
	await(t, "second follows", func() bool { return second.Leader().Name == "first" })

	first.lease.sever(true)
	await(t, "somebody else leads", func() bool {
		if second.leads() && first.leads() {
			t.Fatal("two controllers lead by their leases")
		}
		return second.leads()
	})
	if _, _, err := first.Place(t.Context(), []psg.Ask{gate(web, "a", "n1")}, 0); !errors.Is(err, psg.ErrNotLeader) {
		t.Errorf("stale leader answered %v", err)
	}
	first.lease.sever(false)
	await(t, "first follows second", func() bool { return first.Leader().Name == "second" })
	second.halt()
	await(t, "first leads again", first.leading)
}

// TestCycle_StaleLeaderCommitsAndTellsNothing is a leader that was paused: it
// believes in its lease, and another has opened an epoch meanwhile.
func TestCycle_StaleLeaderCommitsAndTellsNothing(t *testing.T) {
	log, web := tempLog(t), workload("web", "service", 64)
	stale := newWorld(t, log, jobs{web.ID: web})
	told := 0
	stale.config.Orders = func(psg.Order) { told++ }
	stale.report(psg.NodeChanged{Node: testNode("n1")})
	stale.cycle()
	next := newWorld(t, log, nil)
	before, _, _ := next.Position()

	asked := make(chan error, 1)
	go func() {
		_, _, err := stale.Place(t.Context(), []psg.Ask{gate(web, "a1", "n1")}, 0)
		asked <- err
	}()
	await(t, "the ask waits for a cycle", func() bool {
		stale.inbox.mu.Lock()
		defer stale.inbox.mu.Unlock()
		return len(stale.inbox.deltas) > 0
	})
	if err := stale.Cycle(t.Context(), stale.now); !errors.Is(err, psg.ErrNotLeader) {
		t.Errorf("Cycle = %v, want ErrNotLeader", err)
	}
	stale.resign()
	if err := <-asked; !errors.Is(err, psg.ErrNotLeader) {
		t.Errorf("Place = %v, want ErrNotLeader", err)
	}
	if err := next.Lead(t.Context(), start); err != nil {
		t.Fatal(err)
	}
	if after, _, _ := next.Position(); after != before+1 {
		t.Errorf("the log went from record %d to %d, want the new epoch alone", before, after)
	}
	if told != 0 {
		t.Errorf("%d orders were given", told)
	}
}

// TestCycle_WithoutItsLeaseTellsNothing is a leader that was paused between its
// append and what follows from it.
func TestCycle_WithoutItsLeaseTellsNothing(t *testing.T) {
	web := workload("web", "service", 64)
	w := newWorld(t, tempLog(t), jobs{web.ID: web})
	told := 0
	w.config.Orders = func(psg.Order) { told++ }
	w.report(psg.NodeChanged{Node: testNode("n1")}, psg.WorkloadChanged{Workload: web}, psg.Asked{Ask: gate(web, "a1", "n1")})
	w.hold(psg.Lease{Mine: true, Until: time.Now().Add(-time.Millisecond)})
	if err := w.Cycle(t.Context(), w.now); !errors.Is(err, psg.ErrNotLeader) {
		t.Errorf("Cycle = %v, want ErrNotLeader", err)
	}
	if told != 0 {
		t.Errorf("%d orders were given", told)
	}
	w.hold(psg.Lease{})
	if err := w.Lead(t.Context(), w.now); err != nil {
		t.Fatal(err)
	}
	if w.state("a1") != psg.Granted {
		t.Errorf("a1 is %s, want the committed grant", w.state("a1"))
	}
}
