package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/psgrid/psg"
)

// alike are the first moves that are of one group and off one node.
func alike(moves []wantedMove) []wantedMove {
	for i := range moves {
		if moves[i].source.Ask.Workload != moves[0].source.Ask.Workload || moves[i].from() != moves[0].from() {
			return moves[:i]
		}
	}
	return moves
}

// beginAll begins moves, group by group, at most so many; 0 means a few. In those
// that it does not begin it says why.
func (c *Controller) beginAll(ctx context.Context, moves []wantedMove, most int, to Orchestrator) ([]psg.Order, error) {
	limit, alone := min(most, maxMoves), min(most, maxMoves)
	if most <= 0 {
		limit, alone = usualMoves, maxMoves
	}
	var begun []psg.Order
	for len(moves) > 0 && len(begun) < limit {
		together := alike(moves)
		moves = moves[len(together):]
		left := allowance{now: limit - len(begun), together: limit - len(begun), alone: alone}
		if len(begun) == 0 {
			left.together = alone
		}
		orders, err := c.begin(ctx, together, left, to)
		begun = append(begun, orders...)
		notBegun(together, orders, err)
		switch {
		case err == nil:
		case errors.Is(err, psg.ErrBusy), errors.Is(err, psg.ErrInvalid):
			c.config.Log.Info("not moved", "workload", together[0].source.Ask.Workload, "reason", err)
		case errors.Is(err, psg.ErrNotLeader), errors.Is(err, psg.ErrUnavailable), ctx.Err() != nil:
			return begun, err
		default: // of this job alone
			c.config.Log.Warn("not moved", "workload", together[0].source.Ask.Workload, "error", err)
		}
	}
	for i := range moves {
		moves[i].stays = fmt.Sprintf("as many moves as may be begun at once were: %d", limit)
	}
	return begun, nil
}

// allowance is how many moves may be begun: now, now if they are of instances that
// move together, and of such if nothing had been begun before them.
type allowance struct{ now, together, alone int }

// begin begins moves of one group off one node, in the order that it allows.
func (c *Controller) begin(ctx context.Context, moves []wantedMove, left allowance, to Orchestrator) ([]psg.Order, error) {
	id := moves[0].source.Ask.Workload
	workload, there := c.groupOn(id, moves[0].from())
	if workload == nil {
		return nil, nil
	}
	release, held := c.steers.hold(id.JobID())
	if !held {
		return nil, fmt.Errorf("the job is being changed: %w", psg.ErrBusy)
	}
	defer release()
	if err := c.mayMove(id.JobID()); err != nil {
		return nil, err
	}
	must := mustStartFirst(workload)
	if startsFirst(workload) && there == len(moves) {
		orders, err := c.shiftWithin(ctx, workload, moves, left, to)
		if err == nil || must || !errors.Is(err, errNoRoom) && !errors.Is(err, psg.ErrInvalid) {
			return orders, err
		}
		c.config.Log.Info("moved without starting another first", "workload", id, "reason", err)
	} else if must {
		return nil, fmt.Errorf("no other can be started first: %w", psg.ErrBusy)
	}
	var orders []psg.Order
	for i := range moves {
		if len(orders) == left.now {
			break
		}
		if err := ctx.Err(); err != nil {
			return orders, err
		}
		if !c.spares(id) {
			moves[i].stays = fmt.Sprintf("no more of the group's instances may be down now than are: of %d at most %d may", workload.Count, allowedDown(workload))
			break
		}
		order, err := c.move(ctx, &moves[i], to)
		if err != nil {
			return orders, err
		}
		orders = append(orders, order)
	}
	return orders, nil
}

// mayMove reports why no instance of a job may begin to move now, as psg.ErrBusy.
func (c *Controller) mayMove(job psg.JobID) error {
	if c.steers.shiftOf(job) != nil {
		return fmt.Errorf("others of the job move already: %w", psg.ErrBusy)
	}
	if wait := c.steers.resting(job, time.Now()); wait > 0 {
		return fmt.Errorf("the last move of the job was given up, the next may be in %v: %w", wait.Round(time.Second), psg.ErrBusy)
	}
	return nil
}

// mustStartFirst reports whether instances of a workload move in no other order.
func mustStartFirst(w *psg.Workload) bool {
	return w.Disruption != nil && w.Disruption.Order == psg.StartFirst
}

// shiftWithin is shift for as many as are allowed. Those that are too many by
// themselves are psg.ErrInvalid, those that are just now psg.ErrBusy.
func (c *Controller) shiftWithin(ctx context.Context, w *psg.Workload, moves []wantedMove, left allowance, to Orchestrator) ([]psg.Order, error) {
	switch n := len(moves); {
	case n > left.alone:
		return nil, fmt.Errorf("its %d instances there move together, and %d moves are allowed: %w", n, left.alone, psg.ErrInvalid)
	case n > left.together:
		return nil, fmt.Errorf("its %d instances there move together, and %d moves are left: %w", n, left.together, psg.ErrBusy)
	}
	return c.shift(ctx, w, moves, to)
}
