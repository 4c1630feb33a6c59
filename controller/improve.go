package controller

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/placement"
)

// improveFor bounds one look for moves that pay, for which an idle cycle waits. It ends
// sooner when somebody comes who waits for an answer.
const improveFor = 100 * time.Millisecond

// Improvement is whether idle cycles look for moves that pay by themselves. The
// zero value means never.
type Improvement struct {
	Every time.Duration // between two looks of cycles that nobody waits for; 0 means never
	Moves int           // most that one look begins, each step of an exchange counted; default 8
}

// lookForMoves sees whether moves would pay, now that nobody waits for a place,
// and has Improve carry them out. While those of the last look are carried out
// there is no other.
func (c *Controller) lookForMoves(ctx context.Context, now time.Time) error {
	if c.config.Improvement.Every <= 0 || now.Sub(c.improved) < c.config.Improvement.Every || c.steers.orchestrator() == nil {
		return nil
	}
	select {
	case c.carrying <- struct{}{}:
	default:
		return nil
	}
	c.improved = now
	moves, err := c.movesThatPay(ctx, now)
	if err != nil || len(moves) == 0 {
		<-c.carrying
		return err
	}
	c.wishes <- moves // there is room: whoever holds the token is alone
	return nil
}

// movesThatPay are those that the engine finds now, in the time that it has. Before it
// has all rulings, which say what is protected, it finds none.
func (c *Controller) movesThatPay(ctx context.Context, now time.Time) ([]placement.Move, error) {
	late := within(improveFor)
	spent := func() bool { return late() || c.inbox.hurries() }
	view, policy := c.freeze(now), c.policy()
	groups, instances := c.unmovable(view, time.Now())
	rulings := map[psg.WorkloadID]*psg.Ruling{}
	for i := range view.Workloads {
		w := &view.Workloads[i]
		if groups[w.ID] {
			rulings[w.ID] = &psg.Ruling{Workload: w.ID, Protected: []psg.Reason{{Source: "moves", Text: "its group is left alone now"}}}
			continue
		}
		ruling, err := policy.Rule(ctx, w, view)
		if err != nil {
			return nil, err
		}
		rulings[w.ID] = &ruling
		if late() {
			c.config.Log.Warn("no look for moves that pay: policy took too long", "workloads", len(view.Workloads))
		}
		if spent() {
			return nil, nil
		}
	}
	c.bind(c.engine, policy, rulings, nil, view, now)
	return c.engine.Improve(placement.Problem{
		Now: now, Seed: c.lookSeed(), Rulings: rulings, Rows: rows(view), Stop: spent, Stay: instances,
	}, c.config.Improvement.Moves).Moves, nil
}

// lookSeed is where the next look begins: elsewhere each time, whether or not the
// ledger moves, because in its time it may not see everything.
func (c *Controller) lookSeed() uint64 {
	c.looks++
	return rand.NewPCG(c.state.Sequence(), c.looks).Uint64()
}

// Improve carries out the moves that idle cycles find, in their order: within what
// their groups can spare, and with each destination reserved before anything
// stops, as Rebalance does. Moves that pay by themselves are begun and left to
// themselves; those that pay only together are carried to their end before what
// follows begins. It runs until ctx ends: it is one of Config.Duties.
func (c *Controller) Improve(ctx context.Context) error {
	select {
	case <-c.wishes: // of a lead that is over
		<-c.carrying
	default:
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case moves := <-c.wishes:
			err := c.carryOut(ctx, moves)
			<-c.carrying
			if err != nil {
				return err
			}
		}
	}
}
