package controller

import (
	"context"
	"fmt"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/ledger"
)

// Place submits asks, idempotent by their IDs, and waits until each has an
// answer and at least one of them is newer than the record after, or until
// ctx ends; then it returns an order for each ask, in their order, and the
// record they are current as of. An ask without an answer yet gets Wait with
// no refusal.
//
// Errors: psg.ErrInvalid, psg.ErrUnknown (no such workload), psg.ErrBusy,
// psg.ErrNotLeader. On an error no ask was accepted.
func (c *Controller) Place(ctx context.Context, asks []psg.Ask, after uint64) ([]psg.Order, uint64, error) {
	for i, ask := range asks {
		if err := checkID(ask.ID); err != nil {
			return nil, 0, fmt.Errorf("ask %d: %w", i, err)
		}
	}
	return c.place(ctx, asks, after)
}

// place is Place for asks of the controller's own too.
func (c *Controller) place(ctx context.Context, asks []psg.Ask, after uint64) ([]psg.Order, uint64, error) {
	if err := c.submit(ctx, asks); err != nil {
		return nil, 0, err
	}
	ids := make([]psg.RequestID, len(asks))
	for i, ask := range asks {
		ids[i] = ask.ID
	}
	poll, err := c.polls.open(ids)
	if err != nil {
		return nil, 0, err
	}
	defer c.polls.close(poll)
	for {
		orders, sequence, fresh := c.answers(ids, after)
		if err := c.mustLead(); err != nil { // asked after the answers were read
			return nil, 0, err
		}
		if fresh {
			return orders, sequence, nil
		}
		select {
		case <-poll.told:
		case <-ctx.Done():
			return orders, sequence, nil
		}
	}
}

// submit hands the asks that are new to the next cycle, with the workloads
// that are not known yet.
func (c *Controller) submit(ctx context.Context, asks []psg.Ask) error {
	if err := c.mustLead(); err != nil {
		return err
	}
	batch := submission{asks: map[psg.RequestID]psg.WorkloadID{}, defined: map[psg.WorkloadID]bool{}}
	for i, ask := range asks {
		if err := checkAsk(ask); err != nil {
			return fmt.Errorf("ask %d: %w", i, err)
		}
		if err := c.add(ctx, &batch, ask); err != nil {
			return fmt.Errorf("ask %d: %w", i, err)
		}
	}
	if len(batch.deltas) == 0 {
		return nil
	}
	return c.inbox.submit(batch.deltas...)
}

// answers returns the order for each ask as the ledger has it, and whether
// all have one and any is newer than the record after.
func (c *Controller) answers(ids []psg.RequestID, after uint64) (orders []psg.Order, sequence uint64, fresh bool) {
	c.view(func(s *ledger.State) {
		sequence = s.Sequence()
		complete := true
		for _, id := range ids {
			order, answered := orderFor(s.Ask(id), s.Epoch())
			order.Ask = id
			orders = append(orders, order)
			complete = complete && answered
			fresh = fresh || order.Sequence > after
		}
		fresh = (fresh || len(ids) == 0) && complete
	})
	return orders, sequence, fresh
}

// orderFor says what an ask's status means to whoever asked, and whether it is
// an answer at all.
func orderFor(status *psg.AskStatus, epoch psg.Epoch) (psg.Order, bool) {
	if status == nil {
		return psg.Order{Kind: psg.Wait, Epoch: epoch}, false
	}
	order := psg.Order{
		Epoch: epoch, Sequence: status.Sequence,
		Ask: status.Ask.ID, Workload: status.Ask.Workload, Alloc: status.Ask.Alloc, Node: status.Ask.Node,
		Refusal: status.Refusal,
	}
	switch {
	case status.Placement != nil && status.Placement.Waits():
		order.Kind, order.Refusal = psg.Wait, waitsFor(status.Placement)
	case status.Placement != nil:
		order.Kind, order.Node, order.Devices = psg.Grant, status.Placement.Node, status.Placement.Devices
		order.Refusal = nil
	case status.State == psg.Elsewhere:
		order.Kind, order.Node = psg.Steer, status.Refusal.Node
	case status.Over():
		order.Kind = psg.Stop
	default:
		order.Kind = psg.Wait
		return order, status.Refusal != nil
	}
	return order, true
}

// tell wakes whoever waits for an ask that changed, publishes the orders that
// follow from the decisions, and logs a line for each with its reason.
func (c *Controller) tell(facts, decisions []psg.Delta, taken batch) {
	for _, d := range facts {
		if id, ok := subject(d); ok {
			c.polls.tell(id)
		}
		c.noteLoss(d, time.Now())
		c.noteEnd(d)
	}
	for _, d := range decisions {
		id, answered := subject(d)
		status := c.state.Ask(id)
		if !answered || status == nil {
			continue
		}
		if order, answered := orderFor(status, c.state.Epoch()); answered {
			c.config.Orders(order)
		}
		c.polls.tell(id)
		c.noteAsk(status, time.Now())
		c.logDecision(status)
	}
	taken.answer(nil)
	if len(c.state.Waiting()) > 0 {
		signal(c.evictions.news)
	}
}

// subject returns the ask that a delta answers, if it does: every decision is.
func subject(d psg.Delta) (psg.RequestID, bool) {
	switch d := d.(type) {
	case psg.Placed:
		return d.Placement.Ask.ID, true
	case psg.Refused:
		return d.Refusal.Ask, true
	case psg.Freed:
		return d.Ask, true
	}
	return "", false
}

func (c *Controller) logDecision(status *psg.AskStatus) {
	node, reason := status.Ask.Node, status.Reason
	switch {
	case status.Placement != nil:
		node = status.Placement.Node
	case status.Refusal != nil:
		reason = status.Refusal.Summary
	}
	c.config.Log.Info("decided", "ask", status.Ask.ID, "workload", status.Ask.Workload,
		"state", status.State, "node", node, "reason", reason)
}
