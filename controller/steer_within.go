package controller

import (
	"context"
	"fmt"
	"time"

	"github.com/psgrid/psg"
)

// orchestratorWithin is how long one call of an orchestrator may take: everything
// else that is to be steered waits for it, and a network may leave a call without
// an answer for good.
const orchestratorWithin = stepWithin

// impatient is an orchestrator that is not waited for without end.
type impatient struct {
	to     Orchestrator
	within time.Duration
}

func (i impatient) Steer(ctx context.Context, s psg.Steering, leads func() error) (changed bool, err error) {
	err = i.call(ctx, func(ctx context.Context) error { changed, err = i.to.Steer(ctx, s, leads); return err })
	return changed, err
}

func (i impatient) Stop(ctx context.Context, alloc psg.AllocID) error {
	return i.call(ctx, func(ctx context.Context) error { return i.to.Stop(ctx, alloc) })
}

func (i impatient) Shifting(ctx context.Context, job psg.JobID) (state psg.ShiftState, err error) {
	err = i.call(ctx, func(ctx context.Context) error { state, err = i.to.Shifting(ctx, job); return err })
	return state, err
}

func (i impatient) Heal(ctx context.Context, job psg.JobID) (healed bool, err error) {
	err = i.call(ctx, func(ctx context.Context) error { healed, err = i.to.Heal(ctx, job); return err })
	return healed, err
}

func (i impatient) Blocked(ctx context.Context) (all []psg.Blockage, err error) {
	err = i.call(ctx, func(ctx context.Context) error { all, err = i.to.Blocked(ctx); return err })
	return all, err
}

func (i impatient) call(ctx context.Context, do func(context.Context) error) error {
	return inTime(ctx, i.within, do)
}

// inTime has something done that may take so long. What takes longer is
// psg.ErrUnavailable.
func inTime(ctx context.Context, limit time.Duration, do func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := do(bounded)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("no answer within %v: %w: %w", limit, psg.ErrUnavailable, err)
	}
	return err
}
