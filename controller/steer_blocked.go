package controller

import (
	"context"

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
// last looked at, which is twice a minute. It is not to be changed.
func (c *Controller) Blocked() map[psg.BlockReason]int {
	c.steers.mu.Lock()
	defer c.steers.mu.Unlock()
	return c.steers.blocked
}

// Blockages are those of one job.
func (c *Controller) Blockages(job psg.JobID) []psg.Blockage {
	c.steers.mu.Lock()
	defer c.steers.mu.Unlock()
	found := []psg.Blockage{}
	for _, one := range c.steers.blockages {
		if one.Job == job {
			found = append(found, one)
		}
	}
	return found
}
