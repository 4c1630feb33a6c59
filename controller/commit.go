package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/ledger"
)

// decisions turns a plan into the deltas that change something: see sameRefusal and
// wanders. The ledger checks each of them, however the engine found it: one that
// fails is a fault in the engine, is dropped, and leaves its ask pending.
func (c *Controller) decisions(plan psg.Plan, now time.Time) []psg.Delta {
	var deltas []psg.Delta
	admission := c.state.Admission()
	admit := func(together ...psg.Delta) {
		for _, d := range together {
			if err := errors.Join(admission.Admit(d), c.log.Check(d)); err != nil {
				c.config.Log.Error("decision dropped: engine and ledger disagree", "error", err, "with", len(together)-1)
				return
			}
		}
		deltas = append(deltas, together...)
	}
	for _, used := range plan.Consumed {
		admit(psg.Freed{Ask: used, State: psg.Released, Reason: "reservation used", At: now})
	}
	placed, refused := c.wholeGangs(plan.Placements, now)
	for _, together := range placed {
		admit(together...)
	}
	replanned := map[psg.RequestID]time.Time{}
	for _, refusal := range slices.Concat(plan.Refusals, refused) {
		refusal = c.toldBlind(refusal)
		if status := c.state.Ask(refusal.Ask); !c.wanders(status, &refusal, replanned, now) && !sameRefusal(status, &refusal) {
			admit(psg.Refused{Refusal: refusal, At: now})
		}
	}
	c.replanned = replanned
	return deltas
}

// sameRefusal reports whether an ask is refused already as it is to be, in all that
// is acted on: its state, where it is planned instead, and what people are told in
// a line. What else might help them changes with every node's load; it is as of
// when the rest was news.
func sameRefusal(status *psg.AskStatus, refusal *psg.Refusal) bool {
	known := status.Refusal
	return status.State == refusal.State && known != nil && known.Node == refusal.Node && known.Summary == refusal.Summary
}

// maxDeltas bounds one record. Of usual deltas it is well below what the log
// takes in one message; append cuts what is not.
const maxDeltas = 16_384

// wholeGangs turns placements, in which those of a gang follow one another, into
// deltas, a gang's together. A gang is in the log as a whole or not at all: one
// that no record takes is refused instead.
func (c *Controller) wholeGangs(placements []psg.Placement, now time.Time) (placed [][]psg.Delta, refused []psg.Refusal) {
	for len(placements) > 0 {
		end := 1
		gang := c.gang(placements[0].Ask.Workload)
		for gang != "" && end < len(placements) && c.gang(placements[end].Ask.Workload) == gang {
			end++
		}
		var deltas []psg.Delta
		for _, p := range placements[:end] {
			p.Since = now
			deltas = append(deltas, psg.Placed{Placement: p})
		}
		var err error
		if end > 1 { // one alone is checked as every decision is
			err = c.log.Check(deltas...)
		}
		if err != nil {
			summary := fmt.Sprintf("gang %s cannot be placed as a whole: its %d instances are too large for one record of the ledger", gang, end)
			for _, p := range placements[:end] {
				refused = append(refused, psg.Refusal{Ask: p.Ask.ID, State: psg.Denied, Summary: summary})
			}
			c.config.Log.Warn("gang is too large for one record", "gang", gang, "instances", end, "error", err)
		} else {
			placed = append(placed, deltas)
		}
		placements = placements[end:]
	}
	return placed, refused
}

// gang is the gang that a workload is of, if any.
func (c *Controller) gang(id psg.WorkloadID) psg.GangID { return gangOf(c.state, id) }

func gangOf(s *ledger.State, id psg.WorkloadID) psg.GangID {
	if w := s.Workload(id); w != nil {
		return w.Gang
	}
	return ""
}

// chunks cuts what a cycle commits into records: one, unless it is huge. A gang
// stays together, and so do decisions on one workload.
func (c *Controller) chunks(facts, decisions []psg.Delta) [][]psg.Delta {
	deltas := slices.Concat(facts, decisions)
	var cut [][]psg.Delta
	for len(deltas) > maxDeltas {
		end := maxDeltas
		for end < len(deltas) && (placesSame(deltas[end-1], deltas[end]) || c.placesGang(deltas[end-1], deltas[end])) {
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

// placesGang reports whether two deltas place members of one gang.
func (c *Controller) placesGang(a, b psg.Delta) bool {
	first, ok := a.(psg.Placed)
	second, too := b.(psg.Placed)
	if !ok || !too {
		return false
	}
	gang := c.gang(first.Placement.Ask.Workload)
	return gang != "" && gang == c.gang(second.Placement.Ask.Workload)
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
