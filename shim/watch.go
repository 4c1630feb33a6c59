package shim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

// Sink takes what a Watcher sees. It blocks while it has no room, which slows
// the Watcher down and loses nothing: Nomad is listed again where it could not
// wait. Deltas arrive in an order in which they may be applied, and may repeat.
type Sink interface {
	Deltas(ctx context.Context, deltas []psg.Delta) error
}

// WatchConfig tunes a Watcher. A field left zero takes its default.
type WatchConfig struct {
	Region   string        // region of the nodes; the agent's when empty
	Resync   time.Duration // between full lists while the stream is well; 5 min
	Silence  time.Duration // without a word, heartbeats included, until the stream counts as broken; 75 s
	RetryMin time.Duration // first wait after a failure, doubled up to RetryMax; 250 ms
	RetryMax time.Duration // 15 s
	// Namespaces are those in which PSG places jobs; all when empty. What runs in
	// others is counted as Nomad's own.
	Namespaces []string
	Before     Remembered // what the sink knows already; nothing
	// Counted is what the sink counts that Nomad has told of, asked for before each
	// full list: gates report allocations, and jobs with them, too, and one may come
	// and go between two streams.
	Counted func() Remembered
}

func (c WatchConfig) withDefaults() WatchConfig {
	for _, one := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&c.Resync, 5 * time.Minute},
		{&c.Silence, 75 * time.Second},
		{&c.RetryMin, 250 * time.Millisecond},
		{&c.RetryMax, 15 * time.Second},
	} {
		if *one.field <= 0 {
			*one.field = one.value
		}
	}
	return c
}

// Watcher follows one Nomad region: nodes, jobs and allocations of all
// namespaces. It hands on
//
//   - NodeChanged and NodeGone;
//   - WorkloadChanged and WorkloadGone of managed groups, those with a psg task
//     or the hold constraint;
//   - Moved to Running when a managed allocation's main tasks run, and to Ending
//     when Nomad stops it, repeated with each later change of it, and Freed when it
//     has ended;
//   - for an allocation that Nomad placed by itself, WorkloadChanged of a
//     workload labelled ManagedLabel "false" and Placed of what it holds, then
//     Freed, and WorkloadGone with the last one.
//
// An allocation's ID is the ID of its ask.
type Watcher struct {
	client *api.Client
	sink   Sink
	log    *slog.Logger
	config WatchConfig
	view   *view
	before Remembered // what has yet to be compared with a full list
}

// NewWatcher returns a Watcher, which does nothing until Run. The client's token
// must be allowed to read nodes, and jobs in every namespace.
func NewWatcher(client *api.Client, sink Sink, log *slog.Logger, config WatchConfig) *Watcher {
	config = config.withDefaults()
	v := newView(config.Region, log)
	if len(config.Namespaces) > 0 {
		v.only = map[string]bool{}
		for _, namespace := range config.Namespaces {
			v.only[namespace] = true
		}
	}
	return &Watcher{client: client, sink: sink, log: log, config: config, view: v, before: config.Before}
}

// errResync ends a stream that is well, to list anew: Nomad does not report
// everything it forgets.
var errResync = errors.New("time for a full list")

// errSilent ends a stream from which nothing comes.
var errSilent = errors.New("the event stream is silent")

// sinkError is an error of the sink: listing again does not mend it.
type sinkError struct{ error }

func (e sinkError) Unwrap() error { return e.error }

// Run follows Nomad until the context ends, or the sink fails, and returns why.
// When Nomad fails it lists and follows again, waiting longer each time.
func (w *Watcher) Run(ctx context.Context) error {
	wait := w.config.RetryMin
	for {
		followed, err := w.follow(ctx)
		var fromSink sinkError
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &fromSink):
			return fmt.Errorf("hand on deltas: %w", fromSink.error)
		case errors.Is(err, errResync):
			wait = w.config.RetryMin
			continue
		case followed:
			wait = w.config.RetryMin
		}
		w.log.Warn("nomad cannot be followed", "err", err, "retry_in", wait)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
		wait = min(2*wait, w.config.RetryMax)
	}
}

// learnRegion asks the agent for its region where none is known. Without an
// answer, as to a token that may not read agents, nodes have no region, which
// only constraints on it notice. Another try follows with the next full list.
func (w *Watcher) learnRegion(ctx context.Context) {
	if w.view.region != "" {
		return
	}
	var self struct{ Config struct{ Region string } }
	if _, err := w.client.Raw().Query("/v1/agent/self", &self, query(ctx, "")); err != nil {
		w.log.Warn("nomad does not tell its region", "err", err)
	}
	w.view.region = self.Config.Region
}

// follow lists everything, opens the stream, lists what has changed meanwhile,
// and then takes events until something ends that. The first list is the long
// one: the stream need not wait for it. followed reports whether it came as far
// as taking events, which one that cannot be read is not.
func (w *Watcher) follow(ctx context.Context) (followed bool, err error) {
	w.learnRegion(ctx)
	if w.config.Counted != nil {
		counted := w.config.Counted()
		w.before.Allocs, w.before.Workloads = counted.Allocs, counted.Workloads
	}
	if _, err := w.list(ctx); err != nil {
		return false, err
	}
	known, index, err := w.namespaces(ctx, 0)
	if err != nil {
		return false, err
	}
	streaming, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	events, err := openStream(streaming, w.client)
	if err != nil {
		return false, err
	}
	defer events.close()
	listed, err := w.list(ctx)
	if err != nil {
		return false, err
	}
	resync := time.AfterFunc(w.config.Resync, func() { cancel(errResync) })
	defer resync.Stop()
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		w.lookForNamespaces(streaming, known, index, cancel)
	}()
	defer func() { cancel(nil); <-looked }()
	for {
		silence := time.AfterFunc(w.config.Silence, func() { cancel(errSilent) })
		batch, err := events.next()
		silence.Stop()
		if cause := context.Cause(streaming); err != nil && cause != nil {
			err = cause
		}
		if err != nil {
			return followed, err
		}
		if err := w.take(ctx, batch, listed); err != nil {
			return followed, err
		}
		followed = true
	}
}

// take hands on what one batch of events says beyond the lists.
func (w *Watcher) take(ctx context.Context, batch eventBatch, listed indexes) error {
	var deltas []psg.Delta
	for _, e := range batch.Events {
		if e.Index <= listed[e.Topic] {
			continue
		}
		more, err := w.event(ctx, e)
		if err != nil {
			return err
		}
		deltas = append(deltas, more...)
	}
	return w.hand(ctx, deltas)
}

func (w *Watcher) event(ctx context.Context, e event) ([]psg.Delta, error) {
	switch p := e.Payload; {
	case p.Node != nil && e.Type == nodeDeregistration:
		return w.view.nodeGone(p.Node.ID), nil
	case p.Node != nil:
		return w.view.node(p.Node), nil
	case p.Job != nil && p.Deleted:
		return w.purged(ctx, jobKey{text(p.Job.Namespace), text(p.Job.ID)})
	case p.Job != nil:
		return w.view.job(p.Job), nil
	case p.Allocation != nil:
		deltas, err := w.jobOf(ctx, p.Allocation)
		if err != nil {
			return nil, err
		}
		return append(deltas, w.view.alloc(p.Allocation)...), nil
	}
	return nil, nil
}

// purged takes the end of a job, and of those of its allocations that Nomad has
// forgotten with it: it tells of no other end of them.
func (w *Watcher) purged(ctx context.Context, key jobKey) ([]psg.Delta, error) {
	left, _, err := w.client.Jobs().Allocations(key.id, true, query(ctx, key.namespace))
	if err != nil && !notFound(err) {
		return nil, fmt.Errorf("read allocations of purged job %q: %w", key.id, err)
	}
	listed := map[string]bool{}
	for _, a := range left {
		listed[a.ID] = true
	}
	ended := w.view.forgotten(listed, time.Now().UTC(), func(a *allocView) bool {
		return a.workload.Namespace == key.namespace && a.workload.Job == key.id
	})
	return append(ended, w.view.jobGone(key)...), nil
}

// maxHanded bounds how many deltas the sink gets at once.
const maxHanded = 256

func (w *Watcher) hand(ctx context.Context, deltas []psg.Delta) error {
	for len(deltas) > 0 {
		n := min(len(deltas), maxHanded)
		if err := w.sink.Deltas(ctx, deltas[:n:n]); err != nil {
			return sinkError{err}
		}
		deltas = deltas[n:]
	}
	return nil
}
