package controller

import (
	"context"
	"fmt"

	"github.com/psgrid/psg"
)

// maxBlockages is how many things that block are remembered one by one; all are
// counted.
const maxBlockages = 10_000

// lookBlocked takes in what the orchestrator's blocked evaluations wait for.
func (c *Controller) lookBlocked(ctx context.Context, to Orchestrator) {
	all, err := to.Blocked(ctx)
	if err != nil {
		c.config.Log.Warn("blocked evaluations not counted", "error", err)
		return
	}
	counts := map[psg.BlockReason]int{}
	for _, one := range all {
		counts[one.Reason]++
	}
	c.steers.mu.Lock()
	defer c.steers.mu.Unlock()
	c.steers.blocked, c.steers.blockages = counts, all[:min(len(all), maxBlockages)]
}

// Blocked counts, by reason, what the orchestrator could not place when it was
// last looked at, which is twice a minute. It is nil while this controller does
// not know, and not to be changed.
func (c *Controller) Blocked() map[psg.BlockReason]int {
	c.steers.mu.Lock()
	defer c.steers.mu.Unlock()
	return c.steers.blocked
}

// Blockages are those of one job; there are none where nothing steers.
//
// Errors: psg.ErrNotLeader, psg.ErrUnavailable (the orchestrator has yet to
// answer).
func (c *Controller) Blockages(job psg.JobID) ([]psg.Blockage, error) {
	if err := c.mustLead(); err != nil {
		return nil, err
	}
	c.steers.mu.Lock()
	defer c.steers.mu.Unlock()
	if c.steers.to != nil && c.steers.blocked == nil {
		return nil, fmt.Errorf("what is blocked has yet to be looked at: %w", psg.ErrUnavailable)
	}
	found := []psg.Blockage{}
	for _, one := range c.steers.blockages {
		if one.Job == job {
			found = append(found, one)
		}
	}
	return found, nil
}
