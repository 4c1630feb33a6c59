package agent

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/psgrid/psg"
)

// bus records what is published, and fails while it is away.
type bus struct {
	mu   sync.Mutex
	away error
	got  []psg.NodeObserved
}

func (b *bus) Publish(_ context.Context, observed psg.NodeObserved) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.away != nil {
		return b.away
	}
	b.got = append(b.got, observed)
	return nil
}

func (b *bus) setAway(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away = err
}

// taken returns what was published since the last call.
func (b *bus) taken() []psg.NodeObserved {
	b.mu.Lock()
	defer b.mu.Unlock()
	got := b.got
	b.got = nil
	return got
}

// pass lets virtual time pass within a synctest bubble.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// run starts an agent and returns a function that stops it and waits.
func run(t *testing.T, config Config, publisher Publisher) (stop func()) {
	t.Helper()
	a, err := New(config, publisher)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run ended with %v", err)
		}
	}
}

func TestRun_PublishesEveryInterval(t *testing.T) {
	n := newNode(t)
	synctest.Test(t, func(t *testing.T) {
		var b bus
		start := time.Now()
		stop := run(t, configOf(n), &b)
		pass(time.Second)
		stop()
		got := b.taken()
		if len(got) != 6 {
			t.Fatalf("%d observations in a second, want 6 (at 0, 200, … 1000 ms)", len(got))
		}
		for i, observed := range got {
			if want := start.Add(time.Duration(i) * 200 * time.Millisecond); !observed.Telemetry.At.Equal(want) || observed.Node != "node-1" {
				t.Errorf("observation %d is of %s at %v, want %v", i, observed.Node, observed.Telemetry.At, want)
			}
		}
		if v := got[5].Telemetry.Metrics["agent_degraded"]; v != (psg.Stats{}) {
			t.Errorf("degraded is %+v on an idle node", v)
		}
	})
}

func TestRun_CollectsLessOftenWhileCPUIsShort(t *testing.T) {
	n := newNode(t)
	synctest.Test(t, func(t *testing.T) {
		var b bus
		stop := run(t, configOf(n), &b)
		defer stop()
		step := func(busy, idle int, d time.Duration) psg.Stats {
			n.spend(busy, idle)
			pass(d)
			got := b.taken()
			if len(got) != 1 {
				t.Fatalf("%d observations after %v, want 1", len(got), d)
			}
			return got[0].Telemetry.Metrics["agent_degraded"]
		}
		pass(100 * time.Millisecond) // stay between collections
		b.taken()
		for range degradeAfter - 1 {
			if step(100, 0, 200*time.Millisecond).Last != 0 {
				t.Fatal("degraded too early")
			}
		}
		if step(100, 0, 200*time.Millisecond).Last != 1 {
			t.Fatal("not degraded after a second at 100 percent")
		}
		for range 3 * recoverAfter {
			if step(90, 10, 2*time.Second).Last != 1 {
				t.Fatal("90 percent is not enough to recover")
			}
		}
		for range recoverAfter - 1 {
			if step(10, 90, 2*time.Second).Last != 1 {
				t.Fatal("recovered too early")
			}
		}
		if got := step(10, 90, 2*time.Second); got.Last != 0 || got.Max != 1 {
			t.Fatalf("degraded is %+v, want recovered with its past in the window", got)
		}
		step(10, 90, 200*time.Millisecond)
	})
}

func TestRun_KeepsTheNewestWhileTheBusIsAway(t *testing.T) {
	n := newNode(t)
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		var b bus
		b.setAway(errors.New("no route"))
		config := configOf(n)
		config.Buffer = 10
		config.Log = slog.New(slog.NewTextHandler(&logged, nil))
		start := time.Now()
		stop := run(t, config, &b)
		pass(20*time.Second + 100*time.Millisecond)
		b.setAway(nil)
		pass(maxRetry)
		stop()

		got := b.taken()
		if len(got) < 10 {
			t.Fatalf("%d observations published, want at least the 10 kept", len(got))
		}
		if oldest := got[0].Telemetry.At.Sub(start); oldest < 18*time.Second {
			t.Errorf("the oldest is of %v: older ones were to be dropped", oldest)
		}
		if !slices.IsSortedFunc(got, func(a, b psg.NodeObserved) int { return a.Telemetry.At.Compare(b.Telemetry.At) }) {
			t.Error("published out of order")
		}
		last := got[len(got)-1]
		made := int(last.Telemetry.At.Sub(start)/(200*time.Millisecond)) + 1
		if dropped := last.Telemetry.Metrics["agent_dropped"].Last; int(dropped) != made-len(got) {
			t.Errorf("%v reported dropped, of %d made %d were published", dropped, made, len(got))
		}
		if warnings := strings.Count(logged.String(), "telemetry is not published"); warnings != 1 {
			t.Errorf("%d warnings, want 1:\n%s", warnings, &logged)
		}
		if !strings.Contains(logged.String(), "published again") {
			t.Errorf("recovery is not logged:\n%s", &logged)
		}
	})
}

func TestRun_SlowPublisherDelaysNoCollection(t *testing.T) {
	n := newNode(t)
	synctest.Test(t, func(t *testing.T) {
		var b bus
		stuck := publisherFunc(func(ctx context.Context, observed psg.NodeObserved) error {
			if len(b.got) > 0 {
				<-ctx.Done() // as a bus without a time limit of its own
				return ctx.Err()
			}
			return b.Publish(ctx, observed)
		})
		a, err := New(configOf(n), stuck)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- a.Run(ctx) }()
		pass(time.Second)
		cancel()
		<-ended
		if a.outbox.n < 4 {
			t.Errorf("%d observations wait after a second, want all but those published", a.outbox.n)
		}
	})
}

type publisherFunc func(context.Context, psg.NodeObserved) error

func (f publisherFunc) Publish(ctx context.Context, observed psg.NodeObserved) error {
	return f(ctx, observed)
}

func TestNew_RefusesConfigsThatMakeNoSense(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	for want, config := range map[string]Config{
		"no node ID":        {Log: log},
		"no logger":         {Node: "n"},
		"interval 1ms":      {Node: "n", Log: log, Interval: time.Millisecond},
		"slow interval 1ms": {Node: "n", Log: log, SlowInterval: time.Millisecond},
		"window 1s":         {Node: "n", Log: log, Window: time.Second},
		"more than 10000":   {Node: "n", Log: log, Window: time.Hour},
		"slow files every":  {Node: "n", Log: log, Interval: time.Second, SlowFiles: time.Millisecond},
		"buffer -1":         {Node: "n", Log: log, Buffer: -1},
	} {
		if _, err := New(config, &bus{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
