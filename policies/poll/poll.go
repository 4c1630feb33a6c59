// Package poll fetches the data sources of a policy bundle, beside the path of
// decisions: a slow or broken source delays nothing, its data only grows old.
// What old data means is the bundle's to say, and package policies' to apply.
//
// The controller's command runs one Poller over the store of policies.
package poll

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/psgrid/psg/hclspec"
)

// Target is what is fed: the policies in force. Its sources may change at any
// time, when a bundle is reloaded.
type Target interface {
	Sources() []hclspec.Source
	Feed(source hclspec.Source, value any, at time.Time) error
}

// Config says how sources are fetched.
type Config struct {
	Client *http.Client // http.DefaultClient when nil
	Log    *slog.Logger // gets a line when a source fails, and when it answers again; nil for none
}

// Poller fetches each source of a target once in its interval.
type Poller struct {
	target Target
	config Config

	mu     sync.Mutex
	states map[hclspec.Source]*state // sources that differ in anything are different ones
}

type state struct {
	due     time.Time
	running bool
	failed  bool
}

// New makes a poller, which does nothing until it runs.
func New(target Target, config Config) *Poller {
	if config.Client == nil {
		config.Client = http.DefaultClient
	}
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	return &Poller{target: target, config: config, states: map[hclspec.Source]*state{}}
}

// look is how often it is looked whether the sources are other ones.
const look = time.Second

// Run fetches until ctx ends, and returns when the last fetch has.
func (p *Poller) Run(ctx context.Context) error {
	var fetches sync.WaitGroup
	defer fetches.Wait()
	for {
		due, next := p.due(time.Now())
		for _, source := range due {
			fetches.Go(func() { p.fetch(ctx, source) })
		}
		timer := time.NewTimer(time.Until(next))
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
}

// due are the sources to fetch now, none of which is being fetched, and when to
// ask again.
func (p *Poller) due(now time.Time) (due []hclspec.Source, next time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next = now.Add(look)
	current := map[hclspec.Source]*state{}
	for _, source := range p.target.Sources() {
		s, ok := p.states[source]
		if !ok {
			s = &state{due: now}
		}
		current[source] = s
		if !s.running && !s.due.After(now) {
			s.running, s.due = true, now.Add(source.Interval)
			due = append(due, source)
		}
		if s.due.Before(next) {
			next = s.due
		}
	}
	p.states = current
	return due, next
}

// fetch asks a source once and feeds what it answers, as of when it was asked.
func (p *Poller) fetch(ctx context.Context, source hclspec.Source) {
	asked := time.Now()
	limited, cancel := context.WithTimeout(ctx, source.Timeout)
	defer cancel()
	value, err := p.ask(limited, source, asked)
	if err == nil {
		err = p.target.Feed(source, value, asked)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s, ok := p.states[source]
	if !ok || ctx.Err() != nil {
		return // the bundle has another source by now, or nobody listens
	}
	s.running = false
	if s.failed != (err != nil) {
		s.failed = err != nil
		if err != nil {
			p.config.Log.Warn("data source does not answer", "source", source.Name, "kind", source.Kind, "error", err)
		} else {
			p.config.Log.Info("data source answers again", "source", source.Name, "kind", source.Kind)
		}
	}
}

func (p *Poller) ask(ctx context.Context, source hclspec.Source, now time.Time) (any, error) {
	switch source.Kind {
	case "http":
		return p.document(ctx, source.URL)
	case "prometheus":
		return p.query(ctx, source, now)
	}
	return nil, fmt.Errorf("data %q is of a kind that cannot be fetched: %q", source.Name, source.Kind)
}
