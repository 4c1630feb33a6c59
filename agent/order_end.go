package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/agent/hand"
)

const (
	maxEndings = 256 // evictions that may wait or be under way
	endPoll    = 50 * time.Millisecond
	killWithin = 5 * time.Second // that processes may take to end after SIGKILL
)

var errEndings = errors.New("too many evictions are under way")

// evict begins to end an allocation's processes. What is frozen could not hear of
// it: it is let go first.
func (o *Orders) evict(order psg.Order, now time.Time) error {
	if len(o.tenants.of(order.Alloc)) == 0 {
		return errElsewhere
	}
	for _, h := range o.book.of(order.Alloc) {
		if err := o.undo(h); err != nil {
			return err
		}
	}
	return o.beginEnding(ending{
		Alloc: order.Alloc, By: now.Add(orElse(order.Deadline, defaultEnd)),
		Report: psg.Report{
			Node: o.config.Node, Kind: order.Kind, Epoch: order.Epoch, Sequence: order.Sequence,
			Ask: order.Ask, Alloc: order.Alloc,
		},
	})
}

// beginEnding hands an eviction on, in the journal first; one that is under way
// already, as after a drain that was interrupted, is not begun again.
func (o *Orders) beginEnding(e ending) error {
	if slices.ContainsFunc(o.book.Endings, e.of) {
		return nil
	}
	o.book.Endings = append(o.book.Endings, e)
	err := o.book.save()
	if err == nil {
		select {
		case o.ends <- e:
			return nil
		default:
			err = errEndings
		}
	}
	o.book.Endings = slices.DeleteFunc(o.book.Endings, e.of)
	return errors.Join(err, o.book.save())
}

// note keeps in the journal how far an eviction is: told of it, or over.
func (o *Orders) note(e ending, over bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.book.Endings = slices.DeleteFunc(o.book.Endings, e.of)
	if !over {
		o.book.Endings = append(o.book.Endings, e)
	}
	if err := o.book.save(); err != nil {
		o.config.Log.Error("journal not written", "error", err)
	}
}

// drain marks the node as one to be left; who has not left by the deadline is
// evicted.
func (o *Orders) drain(order psg.Order, now time.Time) (time.Time, error) {
	d := &draining{Report: psg.Report{
		Node: o.config.Node, Kind: order.Kind, Epoch: order.Epoch, Sequence: order.Sequence, Ask: order.Ask,
	}}
	if order.Deadline > 0 {
		d.At = now.Add(order.Deadline)
	}
	o.book.Draining = d
	return d.At, nil
}

// emptyNode evicts everybody who is left.
func (o *Orders) emptyNode(drained psg.Report) {
	now := time.Now()
	var failed error
	for _, alloc := range o.tenants.allocs() {
		err := o.evict(psg.Order{
			Kind: psg.Evict, Epoch: drained.Epoch, Sequence: drained.Sequence, Ask: drained.Ask, Alloc: alloc,
		}, now)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", alloc, err))
		}
	}
	drained.At, drained.State = now, psg.ReportDone
	if failed != nil {
		drained.State, drained.Reason = psg.ReportFailed, failed.Error()
	}
	o.tell(drained)
}

// runEndings carries out evictions, each beside the others, until ctx ends; those
// that an agent before this one had begun as soon as it is known who runs here.
func (o *Orders) runEndings(ctx context.Context) {
	var under sync.WaitGroup
	defer under.Wait()
	for _, e := range o.resumed {
		under.Go(func() {
			o.tenants.await(ctx)
			o.end(ctx, e)
		})
	}
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-o.ends:
			under.Go(func() { o.end(ctx, e) })
		}
	}
}

// end ends an allocation's processes and reports it. When the agent ends before
// they do, the next one goes on with it.
func (o *Orders) end(ctx context.Context, e ending) {
	tasks := o.tenants.of(e.Alloc)
	var err error
	if !e.Told {
		err = signalAll(tasks, syscall.SIGTERM)
		e.Told = true
		o.note(e, false)
	}
	forced := false
	if err == nil && !emptied(ctx, tasks, e.By) && ctx.Err() == nil {
		forced, err = true, kill(ctx, tasks)
	}
	if ctx.Err() != nil {
		return // it is not known to have ended
	}
	r := e.Report
	r.State, r.At = psg.ReportDone, time.Now()
	switch {
	case err != nil:
		r.State, r.Reason = psg.ReportFailed, err.Error()
	case forced:
		r.Reason = "by force: it did not end by its deadline"
	}
	o.note(e, true)
	o.tell(r)
}

// kill ends processes by force, again and again: what forks quickly has new ones
// between the list of them and their end.
func kill(ctx context.Context, tasks []tenant) error {
	for by := time.Now().Add(killWithin); ; {
		if err := signalAll(tasks, syscall.SIGKILL); err != nil {
			return err
		}
		switch {
		case emptied(ctx, tasks, time.Now().Add(endPoll)):
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !time.Now().Before(by):
			return fmt.Errorf("it did not end %s after SIGKILL", killWithin)
		}
	}
}

func signalAll(tasks []tenant, signal syscall.Signal) error {
	var failed error
	for _, t := range tasks {
		_, err := hand.Signal(t.groups, signal)
		failed = errors.Join(failed, err)
	}
	return failed
}

// emptied waits until nothing is left of the tasks, and reports whether that came
// in time.
func emptied(ctx context.Context, tasks []tenant, by time.Time) bool {
	poll := time.NewTicker(endPoll)
	defer poll.Stop()
	for {
		left := 0
		for _, t := range tasks {
			pids, err := hand.Processes(t.groups)
			if left += len(pids); err != nil {
				left++ // unknown is not none
			}
		}
		if left == 0 {
			return true
		}
		if !time.Now().Before(by) {
			return false
		}
		select {
		case <-ctx.Done():
			return false
		case <-poll.C:
		}
	}
}
