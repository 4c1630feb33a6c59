package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/telemetry"
)

// bus records what is published, and fails while it is away.
type bus struct {
	mu   sync.Mutex
	away error
	got  []psg.Sample
}

func (b *bus) Publish(_ context.Context, sample psg.Sample) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.away != nil {
		return b.away
	}
	b.got = append(b.got, sample)
	return nil
}

func (b *bus) setAway(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away = err
}

// taken returns what was published since the last call.
func (b *bus) taken() []psg.Sample {
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
			t.Fatalf("%d samples in a second, want 6 (at 0, 200, … 1000 ms)", len(got))
		}
		for i, sample := range got {
			if want := start.Add(time.Duration(i) * 200 * time.Millisecond); !sample.At.Equal(want) || sample.Node != "node-1" {
				t.Errorf("sample %d is of %s at %v, want %v", i, sample.Node, sample.At, want)
			}
		}
		if v := fold(t, telemetry.NewWindows(), got).Metrics["agent_degraded"]; v != (psg.Stats{}) {
			t.Errorf("degraded is %+v on an idle node", v)
		}
	})
}

// fold is what readers make of samples.
func fold(t *testing.T, w *telemetry.Windows, samples []psg.Sample) psg.Telemetry {
	t.Helper()
	for _, sample := range samples {
		if err := w.Fold(sample, sample.At); err != nil {
			t.Fatal(err)
		}
	}
	seen, ok := w.Observed("node-1")
	if !ok {
		t.Fatal("nothing is known of the node")
	}
	return seen.Telemetry
}

func TestRun_CollectsLessOftenWhileCPUIsShort(t *testing.T) {
	n := newNode(t)
	synctest.Test(t, func(t *testing.T) {
		var b bus
		stop := run(t, configOf(n), &b)
		defer stop()
		w := telemetry.NewWindows()
		step := func(busy, idle int, d time.Duration) psg.Stats {
			n.spend(busy, idle)
			pass(d)
			got := b.taken()
			if len(got) != 1 {
				t.Fatalf("%d samples after %v, want 1", len(got), d)
			}
			return fold(t, w, got).Metrics["agent_degraded"]
		}
		pass(100 * time.Millisecond) // stay between collections
		fold(t, w, b.taken())
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

func TestRun_KeepsSlotsWhileTheBusIsAway(t *testing.T) {
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
		pass(45*time.Second + 100*time.Millisecond)
		b.setAway(nil)
		pass(maxRetry + 2*time.Second)
		stop()

		got := b.taken()
		if first := got[0].At.Sub(start); first < 43*time.Second {
			t.Errorf("the oldest sample is of %v: older ones were to be dropped", first)
		}
		most := 0
		for _, sample := range got {
			most = max(most, len(sample.Slots))
		}
		if most != 1 {
			t.Errorf("a sample brings %d of the slots that were missed, want 1 at a time", most)
		}
		seen := fold(t, telemetry.NewWindows(), got)
		if load := seen.Metrics["load_1m"]; load.Over60s == nil || load.Over60s.Mean == 0 {
			t.Errorf("load is %+v: the slots of the time away are missing", load)
		}
		made := int(got[len(got)-1].At.Sub(start)/(200*time.Millisecond)) + 1
		if dropped := seen.Metrics["agent_dropped"].Last; int(dropped) != made-len(got) {
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

func TestRun_FullSampleAfterReadersMissedSome(t *testing.T) {
	n := newNode(t)
	synctest.Test(t, func(t *testing.T) {
		var b bus
		stop := run(t, configOf(n), &b)
		pass(time.Second)
		b.taken()
		b.setAway(fmt.Errorf("somebody asks: %w", ErrResync))
		pass(200 * time.Millisecond)
		b.setAway(nil)
		pass(200 * time.Millisecond)
		stop()
		if got := b.taken(); len(got) != 1 || !got[0].Full {
			t.Errorf("published %+v, want one full sample at once", got)
		}
	})
}

func TestRun_SlowPublisherDelaysNoCollection(t *testing.T) {
	n := newNode(t)
	synctest.Test(t, func(t *testing.T) {
		var b bus
		stuck := publisherFunc(func(ctx context.Context, sample psg.Sample) error {
			if len(b.got) > 0 {
				<-ctx.Done() // as a bus without a time limit of its own
				return ctx.Err()
			}
			return b.Publish(ctx, sample)
		})
		a, err := New(configOf(n), stuck)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- a.Run(ctx) }()
		pass(time.Second)
		a.outbox.mu.Lock()
		if a.outbox.n < 4 {
			t.Errorf("%d samples wait after a second, want all but those published", a.outbox.n)
		}
		a.outbox.mu.Unlock()
		cancel()
		<-ended
	})
}

type publisherFunc func(context.Context, psg.Sample) error

func (f publisherFunc) Publish(ctx context.Context, sample psg.Sample) error {
	return f(ctx, sample)
}

func TestNew_RefusesConfigsThatMakeNoSense(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	for want, config := range map[string]Config{
		"no node ID":        {Log: log},
		"no logger":         {Node: "n"},
		"interval 1ms":      {Node: "n", Log: log, Interval: time.Millisecond},
		"slow interval 1ms": {Node: "n", Log: log, SlowInterval: time.Millisecond},
		"slow files every":  {Node: "n", Log: log, Interval: time.Second, SlowFiles: time.Millisecond},
		"buffer -1":         {Node: "n", Log: log, Buffer: -1},
	} {
		if _, err := New(config, &bus{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
