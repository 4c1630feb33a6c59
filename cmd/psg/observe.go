package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/telemetry"
)

const (
	// observeEvery is how often what agents have said is handed to the controller:
	// once a cycle. However many samples came meanwhile, each node is told once.
	observeEvery = 500 * time.Millisecond
	// silentAfter is when what an agent said last counts no more.
	silentAfter = 30 * time.Second
	// forgetSilentAfter is when a node's windows are dropped.
	forgetSilentAfter = 10 * time.Minute
)

// heard shows what came of agents' samples when it is scraped. It implements
// prometheus.Collector.
type heard struct{ windows *telemetry.Windows }

var refusedDesc = prometheus.NewDesc("psg_telemetry_refused_total",
	"Samples of agents that made no sense, such as those dated far ahead; the log says which now and then.", nil, nil)

// Describe implements prometheus.Collector.
func (h heard) Describe(out chan<- *prometheus.Desc) { out <- refusedDesc }

// Collect implements prometheus.Collector.
func (h heard) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(refusedDesc, prometheus.CounterValue, float64(h.windows.Refused()))
}

// samples carries what agents publish.
type samples interface {
	WatchTelemetry(ctx context.Context, take func(psg.Sample) error) error
}

// observe folds what agents publish into windows and hands observer what it comes
// to, until ctx ends.
func observe(ctx context.Context, from samples, windows *telemetry.Windows, observer func(psg.NodeObserved), log *slog.Logger) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return from.WatchTelemetry(ctx, func(sample psg.Sample) error { return windows.Fold(sample, time.Now()) })
	})
	group.Go(func() error {
		tick := time.NewTicker(observeEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case now := <-tick.C:
				handOn(windows, observer, now, log)
			}
		}
	})
	return group.Wait()
}

// handOn tells observer what is new, and which agents have fallen silent: what
// they said last is no reason to prefer or avoid a node any longer.
func handOn(windows *telemetry.Windows, observer func(psg.NodeObserved), now time.Time, log *slog.Logger) {
	for _, seen := range windows.Take() {
		observer(seen)
	}
	silent := windows.Silent(now.Add(-silentAfter))
	for _, seen := range silent {
		observer(seen)
	}
	if len(silent) > 0 {
		log.Warn("agents are silent: their nodes' use is not known", "nodes", len(silent), "first", silent[0].Node)
	}
	windows.ForgetSilent(now.Add(-forgetSilentAfter))
}
