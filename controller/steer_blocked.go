package controller

import (
	"context"

	"github.com/psgrid/psg"
)

// lookBlocked counts what the orchestrator's blocked evaluations wait for.
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
	c.steers.blocked = counts
}

// Blocked counts, by reason, what the orchestrator could not place when it was
// last looked at. It is not to be changed.
func (c *Controller) Blocked() map[psg.BlockReason]int {
	c.steers.mu.Lock()
	defer c.steers.mu.Unlock()
	return c.steers.blocked
}
