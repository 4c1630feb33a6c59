package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/hashicorp/nomad/api"
	"golang.org/x/sync/errgroup"

	"github.com/psgrid/psg"
)

// indexes holds, for each topic, up to where its list says all.
type indexes map[api.Topic]uint64

// parallel bounds how many objects are fetched at once.
const parallel = 8

// list takes nodes, jobs and allocations as they are now, hands on what is new,
// and what has gone. Objects that have not changed are not fetched again.
func (w *Watcher) list(ctx context.Context) (indexes, error) {
	at := indexes{}
	for _, one := range []struct {
		topic api.Topic
		list  func(context.Context) (uint64, error)
	}{
		{api.TopicNode, w.listNodes},
		{api.TopicJob, w.listJobs},
		{api.TopicAllocation, w.listAllocs},
	} {
		index, err := one.list(ctx)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", one.topic, err)
		}
		at[one.topic] = index
	}
	return at, nil
}

func query(ctx context.Context, namespace string) *api.QueryOptions {
	return (&api.QueryOptions{Namespace: namespace}).WithContext(ctx)
}

func (w *Watcher) listNodes(ctx context.Context) (uint64, error) {
	stubs, meta, err := w.client.Nodes().List(query(ctx, ""))
	if err != nil {
		return 0, err
	}
	listed := map[string]bool{}
	var changed []string
	for _, stub := range stubs {
		listed[stub.ID] = true
		if known, ok := w.view.nodes[stub.ID]; !ok || known < stub.ModifyIndex {
			changed = append(changed, stub.ID)
		}
	}
	err = fetch(ctx, w, changed, func(ctx context.Context, id string) (*api.Node, error) {
		node, _, err := w.client.Nodes().Info(id, query(ctx, ""))
		return node, err
	}, w.view.node)
	if err != nil {
		return 0, err
	}
	if err := w.hand(ctx, append(w.view.onlyNodes(listed), w.before.nodes(listed)...)); err != nil {
		return 0, err
	}
	w.before.Nodes = nil
	return meta.LastIndex, nil
}

func (w *Watcher) listJobs(ctx context.Context) (uint64, error) {
	stubs, meta, err := w.client.Jobs().List(query(ctx, api.AllNamespacesNamespace))
	if err != nil {
		return 0, err
	}
	listed := map[jobKey]bool{}
	var changed []jobKey
	for _, stub := range stubs {
		key := jobKey{stub.Namespace, stub.ID}
		listed[key] = true
		if !w.view.knows(key, stub.JobModifyIndex) {
			changed = append(changed, key)
		}
	}
	if err := fetch(ctx, w, changed, w.fetchJob, w.view.job); err != nil {
		return 0, err
	}
	return meta.LastIndex, w.hand(ctx, w.view.onlyJobs(listed))
}

func (w *Watcher) fetchJob(ctx context.Context, key jobKey) (*api.Job, error) {
	raw, err := requestJob(ctx, w.client, psg.JobID{Namespace: key.namespace, Job: key.id})
	if err != nil {
		return nil, err
	}
	job := new(api.Job)
	return job, json.Unmarshal(raw, job)
}

// allocsPage is how many allocations are asked for at once: one answer with all of
// them would be most of what a controller ever holds.
const allocsPage = 1000

// listAllocs takes the allocations page by page, oldest first. What it says is all
// up to the index of the first page: what changes later may be missing from it, and
// comes along on the stream.
func (w *Watcher) listAllocs(ctx context.Context) (index uint64, err error) {
	listed, live := map[string]bool{}, map[string]bool{}
	asked := query(ctx, api.AllNamespacesNamespace)
	asked.PerPage = allocsPage
	for more := true; more; more = asked.NextToken != "" {
		var page []*allocation
		meta, err := w.client.Raw().Query("/v1/allocations?resources=true", &page, asked)
		if err != nil {
			return 0, err
		}
		if asked.NextToken == "" {
			index = meta.LastIndex
		}
		asked.NextToken = meta.NextToken
		for _, a := range page {
			listed[a.ID], live[a.ID] = true, !a.over()
		}
		if err := w.takeAllocs(ctx, page); err != nil {
			return 0, err
		}
	}
	now := time.Now().UTC()
	deltas := append(w.view.onlyAllocs(listed, now), w.before.allocs(live, w.view, now)...)
	if err := w.hand(ctx, deltas); err != nil {
		return 0, err
	}
	w.before.Allocs, w.before.Workloads = nil, nil
	return index, nil
}

// takeAllocs hands on what is new in a part of the list.
func (w *Watcher) takeAllocs(ctx context.Context, allocs []*allocation) error {
	var deltas []psg.Delta
	for _, a := range allocs {
		more, err := w.jobOf(ctx, a)
		if err != nil {
			return err
		}
		news := w.view.alloc(a)
		if news == nil {
			news = w.view.endAgain(a)
		}
		deltas = append(append(deltas, more...), news...)
	}
	return w.hand(ctx, deltas)
}

// jobOf takes the job of an allocation that is seen for the first time, where
// the job is not known: it is younger than the list of jobs, or purged, and then
// only the allocation itself still has it.
func (w *Watcher) jobOf(ctx context.Context, a *allocation) ([]psg.Delta, error) {
	if w.view.jobs[a.job()] != nil || w.view.allocs[a.ID] != nil {
		return nil, nil
	}
	job, err := w.fetchJob(ctx, a.job())
	if err == nil {
		return w.view.job(job), nil
	}
	if !notFound(err) {
		return nil, fmt.Errorf("read job %q: %w", a.JobID, err)
	}
	full, _, err := w.client.Allocations().Info(a.ID, query(ctx, a.Namespace))
	switch {
	case err != nil && !notFound(err):
		return nil, fmt.Errorf("read allocation %q: %w", a.ID, err)
	case err == nil && full.Job != nil:
		w.view.purged(full.Job)
	}
	return nil, nil
}

// fetch gets objects in parallel and takes them one by one, in order. One that
// is gone by now is passed over.
func fetch[K, V any](ctx context.Context, w *Watcher, keys []K, get func(context.Context, K) (*V, error), take func(*V) []psg.Delta) error {
	for len(keys) > 0 {
		batch := keys[:min(len(keys), maxHanded)]
		keys = keys[len(batch):]
		found := make([]*V, len(batch))
		group, inner := errgroup.WithContext(ctx)
		group.SetLimit(parallel)
		for i, key := range batch {
			group.Go(func() error {
				v, err := get(inner, key)
				if err != nil && !notFound(err) {
					return err
				}
				if err == nil {
					found[i] = v
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
		var deltas []psg.Delta
		for _, v := range found {
			if v != nil {
				deltas = append(deltas, take(v)...)
			}
		}
		if err := w.hand(ctx, deltas); err != nil {
			return err
		}
	}
	return nil
}

// notFound reports whether Nomad answered that it does not know the object.
func notFound(err error) bool {
	var answer api.UnexpectedResponseError
	return errors.Is(err, psg.ErrUnknown) || errors.As(err, &answer) && answer.StatusCode() == http.StatusNotFound
}
