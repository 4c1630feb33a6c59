package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/ledger"
	"github.com/psgrid/psg/placement"
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

// maxDeltas bounds one record, well below what the log takes in one message.
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
	return nil
}

// Lead replays the log, opens the next epoch in it and builds the engine. When
// it returns nil, nobody of an older epoch can append any more.
func (c *Controller) Lead(ctx context.Context, now time.Time) error {
	state := ledger.New()
	if err := c.log.Replay(ctx, 0, state.Apply); err != nil {
		return fmt.Errorf("replay ledger: %w", err)
	}
	epoch := state.Epoch() + 1
	record := psg.Record{
		Sequence: state.Sequence() + 1, Epoch: epoch, At: now,
		Deltas: []psg.Delta{psg.Led{Epoch: epoch, Leader: c.config.Name}},
	}
	if err := c.log.Append(ctx, record); err != nil {
		return fmt.Errorf("open epoch %d: %w", epoch, err)
	}
	if err := state.Apply(record); err != nil {
		return err
	}
	engine := placement.New(placement.Config{})
	for _, d := range state.Snapshot(now).Deltas() {
		engine.Apply(d)
	}
	c.mu.Lock()
	c.state, c.leading = state, true
	c.mu.Unlock()
	c.engine, c.dirty = engine, true
	c.config.Log.Info("leading", "epoch", epoch, "record", record.Sequence)
	return nil
}

// rewind forgets what an uncommitted cycle did and takes the lead anew, which
// settles whether its record is in the log. It returns psg.ErrNotLeader if
// somebody else leads.
func (c *Controller) rewind(ctx context.Context, taken batch, now time.Time, cause error) error {
	c.inbox.putBack(taken)
	if errors.Is(cause, psg.ErrNotLeader) {
		return cause
	}
	c.config.Log.Error("cycle not committed", "error", cause)
	for {
		err := c.Lead(ctx, now)
		if err == nil {
			c.polls.wakeAll() // the record may be in the log after all
			return nil
		}
		if errors.Is(err, psg.ErrNotLeader) {
			return err
		}
		c.config.Log.Error("cannot reach the log", "error", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(c.config.Period):
		}
	}
}
