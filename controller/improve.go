package controller

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/placement"
)

// improveFor bounds one look for moves that pay, for which an idle cycle waits.
const improveFor = 100 * time.Millisecond

// Improvement is whether idle cycles look for moves that pay by themselves. The
// zero value means never.
type Improvement struct {
	Every time.Duration // between two looks of cycles that nobody waits for; 0 means never
	Moves int           // most that are begun after one look; default 8
}

// lookForMoves sees whether moves would pay, now that nobody waits for a place,
// and has Improve begin them. It gives up where the rulings that say what is
// protected take too long.
func (c *Controller) lookForMoves(ctx context.Context, now time.Time) error {
	if c.config.Improvement.Every <= 0 || now.Sub(c.improved) < c.config.Improvement.Every || c.steers.orchestrator() == nil {
		return nil
	}
	c.improved = now
	spent := within(improveFor)
	view, policy := c.freeze(now), c.policy()
	rulings := map[psg.WorkloadID]*psg.Ruling{}
	for i := range view.Workloads {
		w := &view.Workloads[i]
		ruling, err := policy.Rule(ctx, w, view)
		if err != nil {
			return err
		}
		if rulings[w.ID] = &ruling; spent() {
			c.config.Log.Warn("no look for moves that pay: policy took too long", "workloads", len(view.Workloads))
			return nil
		}
	}
	c.bind(c.engine, policy, rulings, nil, view, now)
	found := c.engine.Improve(placement.Problem{
		Now: now, Seed: c.state.Sequence(), Rulings: rulings, Rows: rows(view), Stop: spent,
	}, c.config.Improvement.Moves)
	var from []psg.NodeID
	for _, move := range found.Moves {
		if !slices.Contains(from, move.From) {
			from = append(from, move.From)
		}
	}
	if len(from) == 0 {
		return nil
	}
	select {
	case c.wishes <- from:
	default: // those of the last look are not done
	}
	return nil
}

// Improve begins the moves that idle cycles find, node by node, as Rebalance does:
// within what their groups can spare, and with the destination reserved before
// anything stops. It runs until ctx ends: it is one of Config.Duties.
func (c *Controller) Improve(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case from := <-c.wishes:
			left := c.config.Improvement.Moves
			for _, node := range from {
				if left <= 0 {
					break
				}
				done, err := c.Rebalance(ctx, psg.Rebalance{Node: node, Max: left})
				switch {
				case ctx.Err() != nil:
					return ctx.Err()
				case errors.Is(err, psg.ErrNotLeader):
					return err
				case err != nil:
					c.config.Log.Warn("node not improved", "node", node, "error", err)
				}
				left -= len(done.Orders)
			}
		}
	}
}
