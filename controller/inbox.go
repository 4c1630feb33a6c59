package controller

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/psgrid/psg"
)

// inbox holds what waits for the next cycle. It is bounded: watchers wait for
// room, submitters are refused with psg.ErrBusy, and of telemetry only each
// node's newest is kept.
type inbox struct {
	limit int
	news  chan struct{} // holds a token while there is something to take
	room  chan struct{} // holds a token while a waiting watcher should look again

	mu       sync.Mutex
	closed   error // why asks and resizes are refused; nil while they are not
	woken    bool
	hurry    bool // somebody who waits for an answer has come since the last batch
	deltas   []psg.Delta
	resizes  []*resize
	preempts []*preempt
	yields   bool // the last batch had resizes or a preemption: the next is for asks
	observed map[psg.NodeID]psg.NodeObserved
}

// batch is what one cycle takes from the inbox.
type batch struct {
	woken    bool
	deltas   []psg.Delta
	resizes  []*resize
	preempt  *preempt // at most one, and none beside resizes
	observed []psg.NodeObserved
}

// answer tells those who wait for a batch's requests: what the cycle decided, or
// an error that keeps it from them.
func (b batch) answer(err error) {
	for _, r := range b.resizes {
		if err == nil {
			r.answer <- r.refused
		} else {
			r.answer <- err
		}
	}
	if b.preempt != nil {
		b.preempt.tell(err)
	}
}

func newInbox(limit int) *inbox {
	return &inbox{
		limit:    limit,
		news:     make(chan struct{}, 1),
		room:     make(chan struct{}, 1),
		observed: map[psg.NodeID]psg.NodeObserved{},
	}
}

// submit adds all deltas or, if they do not fit, none.
func (b *inbox) submit(deltas ...psg.Delta) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed != nil {
		return b.closed
	}
	if len(b.deltas)+len(deltas) > b.limit {
		return fmt.Errorf("%d facts and asks wait for a cycle: %w", len(b.deltas), psg.ErrBusy)
	}
	b.deltas = append(b.deltas, deltas...)
	b.hurry = true
	signal(b.news)
	return nil
}

// report adds deltas one by one as room comes, until ctx ends.
func (b *inbox) report(ctx context.Context, deltas []psg.Delta) error {
	for len(deltas) > 0 {
		if n := b.fill(deltas); n > 0 {
			deltas = deltas[n:]
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-b.room:
		}
	}
	return nil
}

func (b *inbox) fill(deltas []psg.Delta) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := max(0, min(len(deltas), b.limit-len(b.deltas)))
	b.deltas = append(b.deltas, deltas[:n]...)
	if n > 0 {
		signal(b.news)
	}
	if n == len(deltas) && len(b.deltas) < b.limit {
		signal(b.room) // for the next that waits
	}
	return n
}

func (b *inbox) resize(r *resize) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed != nil {
		return b.closed
	}
	if len(b.resizes) >= b.limit {
		return fmt.Errorf("%d resizes wait for a cycle: %w", len(b.resizes), psg.ErrBusy)
	}
	b.resizes = append(b.resizes, r)
	b.hurry = true
	signal(b.news)
	return nil
}

func (b *inbox) preempt(p *preempt) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed != nil {
		return b.closed
	}
	if len(b.preempts) >= b.limit {
		return fmt.Errorf("%d preemptions wait for a cycle: %w", len(b.preempts), psg.ErrBusy)
	}
	b.preempts = append(b.preempts, p)
	b.hurry = true
	signal(b.news)
	return nil
}

// observe keeps a node's newest telemetry. It does not start a cycle.
func (b *inbox) observe(seen psg.NodeObserved) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known := b.observed[seen.Node]; known || len(b.observed) < b.limit {
		b.observed[seen.Node] = seen
	}
}

func (b *inbox) wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.woken = true
	signal(b.news)
}

// hurries reports whether somebody who waits for an answer has come since the last
// batch was taken.
func (b *inbox) hurries() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.hurry
}

// take removes up to limit deltas, all resizes or else the first preemption, and
// all telemetry. Resizes and preemptions, with which no ask is decided, come in
// every second batch at most, however many are sent.
func (b *inbox) take(limit int) batch {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(limit, len(b.deltas))
	taken := batch{woken: b.woken, deltas: b.deltas[:n:n], observed: byNode(b.observed)}
	b.deltas, b.woken, b.hurry = b.deltas[n:], false, false
	switch {
	case b.yields:
	case len(b.resizes) > 0:
		taken.resizes, b.resizes = b.resizes, nil
	case len(b.preempts) > 0:
		taken.preempt, b.preempts = b.preempts[0], b.preempts[1:]
	}
	b.yields = len(taken.resizes) > 0 || taken.preempt != nil
	clear(b.observed)
	if len(b.deltas) > 0 || len(b.resizes) > 0 || len(b.preempts) > 0 {
		signal(b.news)
	}
	signal(b.room)
	return taken
}

// putBack returns a batch whose commit failed to the front.
func (b *inbox) putBack(taken batch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.deltas = append(taken.deltas, b.deltas...)
	b.resizes = append(taken.resizes, b.resizes...)
	if taken.preempt != nil {
		b.preempts = slices.Insert(b.preempts, 0, taken.preempt)
	}
	signal(b.news)
}

// open lets asks and resizes in. What was reported while they were refused is of the
// lead before: another's decisions may have passed since.
func (b *inbox) open() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed != nil {
		b.closed, b.deltas = nil, nil
		signal(b.room)
	}
}

// close refuses asks and resizes with an error from now on, and forgets all that
// waits but telemetry.
func (b *inbox) close(why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	batch{resizes: b.resizes}.answer(why)
	for _, p := range b.preempts {
		p.tell(why)
	}
	b.closed, b.deltas, b.resizes, b.preempts, b.woken = why, nil, nil, nil, false
	signal(b.room)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
