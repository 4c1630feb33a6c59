package shim

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/hashicorp/nomad/api"
)

const (
	// namespacesEvery is the least time between two looks for new namespaces, each
	// of which waits at Nomad until there is something to see.
	namespacesEvery = 200 * time.Millisecond
	namespacesWait  = 5 * time.Minute
	// namespacesSettle is how long a stream lasts at least that ends for a new one:
	// who makes many at once has everything listed once a second.
	namespacesSettle = time.Second
)

// namespaces are those there are once they differ from what they were at an index,
// and the index of that. Of a Nomad that does not tell there are none.
func (w *Watcher) namespaces(ctx context.Context, since uint64) (names map[string]bool, index uint64, err error) {
	asked := query(ctx, "")
	asked.WaitIndex, asked.WaitTime = since, namespacesWait
	found, meta, err := w.client.Namespaces().List(asked)
	var answer api.UnexpectedResponseError
	switch {
	case errors.As(err, &answer) && (answer.StatusCode() == http.StatusNotFound || answer.StatusCode() == http.StatusForbidden):
		return nil, 0, nil
	case err != nil:
		return nil, 0, fmt.Errorf("list namespaces: %w", err)
	}
	names = map[string]bool{}
	for _, one := range found {
		names[one.Name] = true
	}
	return names, meta.LastIndex, nil
}

// lookForNamespaces ends a stream once there is a namespace that is not among those
// there were when it was opened: Nomad's stream of all namespaces has the events of
// those alone (seen on Nomad 2.0). It returns when the stream's context is over.
func (w *Watcher) lookForNamespaces(streaming context.Context, known map[string]bool, index uint64, end func(error)) {
	if known == nil {
		w.log.Warn("nomad does not tell its namespaces: what runs in a new one is seen with the next full list", "every", w.config.Resync)
		return
	}
	settled := time.Now().Add(namespacesSettle)
	for wait := namespacesEvery; streaming.Err() == nil; wait = namespacesEvery {
		names, next, err := w.namespaces(streaming, index)
		if err != nil {
			wait = w.config.RetryMax
		} else {
			index = next
		}
		for name := range names {
			if !known[name] {
				pause(streaming, time.Until(settled))
				w.log.Info("a namespace is new: everything is listed again, to follow it, too", "namespace", name)
				end(errResync)
				return
			}
		}
		pause(streaming, wait)
	}
}

// pause waits, or until its context is over.
func pause(ctx context.Context, how time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(how):
	}
}
