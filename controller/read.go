package controller

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/ledger"
)

// Report hands what a watcher saw to the cycle, waiting while the inbox is
// full.
func (c *Controller) Report(ctx context.Context, deltas []psg.Delta) error {
	return c.inbox.report(ctx, deltas)
}

// Observe hands a node's newest telemetry to the cycle. It never waits.
func (c *Controller) Observe(seen psg.NodeObserved) { c.inbox.observe(seen) }

// Snapshot returns the cluster as committed.
func (c *Controller) Snapshot() *psg.Snapshot { return c.freeze(time.Now()) }

// freeze returns the cluster as it stands.
func (c *Controller) freeze(at time.Time) *psg.Snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.Snapshot(at)
}

// Ask returns where one ask stands, and whether it is known.
func (c *Controller) Ask(id psg.RequestID) (status psg.AskStatus, known bool) {
	c.view(func(s *ledger.State) {
		if found := s.Ask(id); found != nil {
			status, known = *found, true
		}
	})
	return status, known
}

// Asks returns where every ask stands, by ID. Cycles go on while they are sorted
// and copied: whoever asks for a hundred thousand delays no decision.
func (c *Controller) Asks() []psg.AskStatus {
	shared := c.statuses()
	slices.SortFunc(shared, func(a, b *psg.AskStatus) int { return cmp.Compare(a.Ask.ID, b.Ask.ID) })
	asks := make([]psg.AskStatus, len(shared))
	for i, status := range shared {
		asks[i] = *status
	}
	return asks
}

// statuses returns where every ask stands, those that are not over first. They are
// shared, and not to be changed.
func (c *Controller) statuses() []*psg.AskStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.Statuses()
}

// Position returns the last committed record, its epoch, and whether this
// controller leads.
func (c *Controller) Position() (sequence uint64, epoch psg.Epoch, leading bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.state.Sequence(), c.state.Epoch(), c.leading
}
