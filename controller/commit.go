package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/psgrid/psg"
)

// decisions turns a plan into the deltas that change something: a refusal is
// repeated only when its state or summary is new. The ledger checks each
// decision apart from how the engine found it; one that fails is a fault in
// the engine, and its ask stays pending.
func (c *Controller) decisions(plan psg.Plan, now time.Time) []psg.Delta {
	var deltas []psg.Delta
	admission := c.state.Admission()
	admit := func(d psg.Delta) {
		if err := errors.Join(admission.Admit(d), c.log.Check(d)); err != nil {
			c.config.Log.Error("decision dropped: engine and ledger disagree", "error", err)
			return
		}
		deltas = append(deltas, d)
	}
	for _, used := range plan.Consumed {
		admit(psg.Freed{Ask: used, State: psg.Released, Reason: "reservation used", At: now})
	}
	for _, p := range plan.Placements {
		p.Since = now
		admit(psg.Placed{Placement: p})
	}
	for _, refusal := range plan.Refusals {
		status := c.state.Ask(refusal.Ask)
		if status.State != refusal.State || status.Refusal == nil || status.Refusal.Summary != refusal.Summary {
			admit(psg.Refused{Refusal: refusal, At: now})
		}
	}
	return deltas
}

// maxDeltas bounds one record. Of usual deltas it is well below what the log
// takes in one message; append cuts what is not.
const maxDeltas = 16_384

// chunks cuts what a cycle commits into records: one, unless it is huge.
// Decisions on one workload stay together, so that a gang is placed at once.
func chunks(facts, decisions []psg.Delta) [][]psg.Delta {
	deltas := slices.Concat(facts, decisions)
	var cut [][]psg.Delta
	for len(deltas) > maxDeltas {
		end := maxDeltas
		for end < len(deltas) && placesSame(deltas[end-1], deltas[end]) {
			end++
		}
		cut, deltas = append(cut, deltas[:end]), deltas[end:]
	}
	if len(deltas) > 0 {
		cut = append(cut, deltas)
	}
	return cut
}

func placesSame(a, b psg.Delta) bool {
	first, ok := a.(psg.Placed)
	second, too := b.(psg.Placed)
	return ok && too && first.Placement.Ask.Workload == second.Placement.Ask.Workload
}

// commit folds a record that is in the log; its facts were folded when they
// were seen and change nothing now. An error means that engine and ledger
// disagree: the record is in the log, but no node was told.
func (c *Controller) commit(record psg.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range record.Deltas {
		if err := c.state.Fold(d, record.Sequence); err != nil {
			return fmt.Errorf("record %d breaks an invariant: %w", record.Sequence, err)
		}
		c.engine.Apply(d)
	}
	c.state.Committed(record.Sequence)
	c.unsaved += len(record.Deltas)
	return nil
}

// rewind forgets what an uncommitted cycle did and opens a new epoch, which
// settles whether its record is in the log. It returns an error when the lead
// is over.
func (c *Controller) rewind(ctx context.Context, taken batch, now time.Time, cause error) error {
	c.inbox.putBack(taken)
	for err := cause; ; {
		if errors.Is(err, psg.ErrNotLeader) || ctx.Err() != nil {
			return err
		}
		c.config.Log.Error("cycle not committed", "error", err)
		if err = c.Lead(ctx, now); err == nil {
			c.polls.wakeAll() // the record may be in the log after all
			return nil
		}
		if !passing(err) {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(c.config.Period):
		}
	}
}
