package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/ledger"
)

const (
	movePrefix = "move/" // begins the IDs of asks for the destination of a move
	// maxMoves is how many moves one request may begin, and maxDestinations how
	// many nodes are tried for each.
	maxMoves        = 64
	maxDestinations = 16
	usualMoves      = 8
)

// Rebalance begins to move what runs on a node to others, for as many
// allocations as their groups can spare now, and at most limit; 0 means a few.
// It reserves each destination before it hints, and hints before it stops: a
// move whose destination cannot be had, or is lost, leaves its source running.
// What Nomad places by itself, what runs on every node, and what policy protects
// stays. It is not counted against the stages of a job: it moves nothing unasked.
// Whoever wants the node empty asks again until nothing is ordered.
//
// Errors: psg.ErrUnknown (no such node), psg.ErrNotLeader, psg.ErrUnavailable
// (nobody carries moves out).
func (c *Controller) Rebalance(ctx context.Context, node psg.NodeID, limit int) ([]psg.Order, error) {
	if err := c.mustLead(); err != nil {
		return nil, err
	}
	to := c.steers.orchestrator()
	if to == nil {
		return nil, fmt.Errorf("move what runs on %s: nothing carries out moves: %w", node, psg.ErrUnavailable)
	}
	if limit <= 0 {
		limit = usualMoves
	}
	candidates, err := c.movable(ctx, node)
	if err != nil {
		return nil, err
	}
	var orders []psg.Order
	for _, source := range candidates {
		if len(orders) == min(limit, maxMoves) {
			break
		}
		if !c.spares(source.Ask.Workload) {
			continue
		}
		order, err := c.move(ctx, &source, node, to)
		if err != nil && !errors.Is(err, psg.ErrBusy) {
			return orders, err
		}
		if err != nil {
			c.config.Log.Info("not moved", "alloc", source.Ask.Alloc, "reason", err)
			continue
		}
		orders = append(orders, order)
	}
	return orders, nil
}

// movable are the running allocations on a node that PSG may move, those of the
// lowest priority first.
func (c *Controller) movable(ctx context.Context, node psg.NodeID) ([]psg.AskStatus, error) {
	view := c.Snapshot()
	if _, known := view.Row(node); !known {
		return nil, fmt.Errorf("node %s: %w", node, psg.ErrUnknown)
	}
	policy, protected := c.policy(), map[psg.WorkloadID]bool{}
	var out []psg.AskStatus
	for _, p := range view.Placements {
		w := view.Workload(p.Ask.Workload)
		if p.Node != node || p.State != psg.Running || w == nil || !w.Managed() || !startsByAsking(w) {
			continue
		}
		keep, judged := protected[w.ID]
		if !judged {
			ruling, err := policy.Rule(ctx, w, view)
			if err != nil {
				return nil, fmt.Errorf("move %s: %w", w.ID, err)
			}
			keep = len(ruling.Protected) > 0
			protected[w.ID] = keep
		}
		if status, known := c.Ask(p.Ask.ID); known && !keep {
			out = append(out, status)
		}
	}
	slices.SortStableFunc(out, func(a, b psg.AskStatus) int {
		return cmp.Compare(view.Workload(a.Ask.Workload).Priority, view.Workload(b.Ask.Workload).Priority)
	})
	return out, nil
}

// spares reports whether one instance of a workload may be down just now: of its
// count at most as many as its migrate block allows, one when it has none.
func (c *Controller) spares(id psg.WorkloadID) bool {
	spare := false
	c.view(func(s *ledger.State) {
		w := s.Workload(id)
		if w == nil {
			return
		}
		allowed := 1
		if w.Migrate != nil {
			allowed = max(1, w.Migrate.MaxParallel)
		}
		running, leaving := map[psg.RequestID]bool{}, []psg.RequestID(nil)
		_, asks := s.Job(id.JobID())
		for _, status := range asks {
			if status.Ask.Workload == id && status.State == psg.Running {
				running[status.Ask.ID] = true
			}
			if source, moves := strings.CutPrefix(string(status.Ask.ID), movePrefix); moves {
				source, _, _ = strings.Cut(source, "/")
				leaving = append(leaving, psg.RequestID(source))
			}
		}
		for _, source := range leaving { // until Nomad has stopped it, it is seen running
			delete(running, source)
		}
		spare = len(running)-1 >= w.Count-allowed
	})
	return spare
}

// move moves one allocation away from a node.
func (c *Controller) move(ctx context.Context, source *psg.AskStatus, from psg.NodeID, to Orchestrator) (psg.Order, error) {
	job := source.Ask.Workload.JobID()
	room, err := c.destination(ctx, source, from)
	if err != nil {
		return psg.Order{}, err
	}
	abort := func(cause error) (psg.Order, error) {
		back := []psg.Delta{
			psg.Moved{Ask: source.Ask.ID, State: psg.Running, At: time.Now()},
			psg.Freed{Ask: room.Ask.ID, State: psg.Released, Reason: "the move was given up", At: time.Now()},
		}
		return psg.Order{}, errors.Join(cause, c.Report(ctx, back))
	}
	if err := c.moving(ctx, source, psg.Moving); err != nil {
		return abort(err)
	}
	workloads, asks := c.job(job)
	asks = slices.DeleteFunc(asks, func(s psg.AskStatus) bool { return s.Ask.ID == source.Ask.ID })
	changed, err := to.Steer(ctx, psg.Steering{Job: job, Hints: hints(workloads, asks)}, c.mustLead)
	if err != nil && !errors.Is(err, psg.ErrUnknown) {
		return abort(err)
	}
	c.steers.count(changed, 0)
	held, _ := c.Ask(room.Ask.ID)
	if held.Placement == nil {
		return abort(fmt.Errorf("the room on %s is lost: %w", room.Node, psg.ErrBusy))
	}
	if err := c.steered(ctx, []psg.AskStatus{held}); err != nil {
		return abort(err)
	}
	if err := c.mustLead(); err != nil {
		return psg.Order{}, err
	}
	if err := to.Stop(ctx, source.Ask.Alloc); err != nil {
		return abort(err)
	}
	c.steers.count(false, 1)
	c.config.Log.Info("moving", "alloc", source.Ask.Alloc, "workload", source.Ask.Workload, "from", from, "to", room.Node, "new_version", changed)
	return psg.Order{
		Kind: psg.Stop, Epoch: c.epoch(), Sequence: held.Sequence, Ask: source.Ask.ID,
		Workload: source.Ask.Workload, Alloc: source.Ask.Alloc, Node: room.Node,
	}, nil
}

// destination reserves room for an allocation on any node but one, trying those
// with the most free CPU first.
func (c *Controller) destination(ctx context.Context, source *psg.AskStatus, not psg.NodeID) (psg.Placement, error) {
	for _, node := range c.roomiest(not) {
		held, refused, err := c.reserve(ctx, psg.Reservation{
			ID:       psg.RequestID(fmt.Sprint(movePrefix, source.Ask.ID, "/", source.Sequence, "/", node)),
			Workload: source.Ask.Workload, Count: 1, Node: node, Hold: steerHold,
		})
		if err != nil {
			return psg.Placement{}, fmt.Errorf("reserve room on %s: %w", node, err)
		}
		if len(refused) == 0 && len(held) == 1 {
			return held[0], nil
		}
	}
	return psg.Placement{}, fmt.Errorf("no other node has room for %s: %w", source.Ask.Alloc, psg.ErrBusy)
}

func (c *Controller) roomiest(not psg.NodeID) []psg.NodeID {
	view := c.Snapshot()
	free := map[psg.NodeID]int64{}
	for _, n := range view.Nodes {
		if n.Ready && n.ID != not {
			free[n.ID] = n.Capacity[psg.CPU]
		}
	}
	for _, p := range view.Placements {
		if _, candidate := free[p.Node]; candidate {
			free[p.Node] -= p.Request[psg.CPU]
		}
	}
	ids := make([]psg.NodeID, 0, len(free))
	for id := range free {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b psg.NodeID) int {
		return cmp.Or(cmp.Compare(free[b], free[a]), strings.Compare(string(a), string(b)))
	})
	return ids[:min(len(ids), maxDestinations)]
}

// moving records a state of an allocation that runs, and waits until it is
// committed.
func (c *Controller) moving(ctx context.Context, source *psg.AskStatus, state psg.State) error {
	poll, err := c.polls.open([]psg.RequestID{source.Ask.ID})
	if err != nil {
		return err
	}
	defer c.polls.close(poll)
	if err := c.Report(ctx, []psg.Delta{psg.Moved{Ask: source.Ask.ID, State: state, At: time.Now()}}); err != nil {
		return err
	}
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for {
		if now, _ := c.Ask(source.Ask.ID); now.State == state {
			return nil
		} else if now.Over() {
			return fmt.Errorf("allocation %s has ended: %w", source.Ask.Alloc, psg.ErrBusy)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-poll.told:
		case <-look.C:
		}
	}
}

func (c *Controller) epoch() psg.Epoch {
	_, epoch, _ := c.Position()
	return epoch
}
