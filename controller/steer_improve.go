package controller

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/placement"
)

// improvements are the moves off a node that are worth their cost by the scores
// of placement: none when what it holds is where it would be placed now. They are
// found on an engine of their own, where nothing else can move.
func (c *Controller) improvements(ctx context.Context, r psg.Rebalance) ([]wantedMove, error) {
	sources, err := c.movable(ctx, r.Node)
	if err != nil || len(sources) == 0 {
		return nil, err
	}
	view, policy := c.Snapshot(), c.policy()
	movable, asks := map[psg.RequestID]bool{}, make([]psg.Ask, len(sources))
	for i, source := range sources {
		movable[source.Ask.ID], asks[i] = true, source.Ask
	}
	rulings, err := rule(ctx, policy, asks, view)
	if err != nil {
		return nil, fmt.Errorf("improve what %s holds: %w", r.Node, err)
	}
	seed, _, _ := c.Position()
	engine, now := movableEngine(view, movable), time.Now()
	c.bind(engine, policy, rulings, nil, view, now)
	found := engine.Improve(placement.Problem{
		Now: now, Seed: seed, Rulings: rulings, Rows: rows(view),
		Stop: func() bool { return ctx.Err() != nil },
	}, maxMoves)
	var moves []wantedMove
	for _, m := range found.Moves {
		at := slices.IndexFunc(sources, func(s psg.AskStatus) bool { return s.Ask.ID == m.Placement.Ask.ID })
		if at >= 0 && m.From == r.Node {
			moves = append(moves, wantedMove{source: sources[at], to: []psg.NodeID{m.Placement.Node}})
		}
	}
	slices.SortStableFunc(moves, func(a, b wantedMove) int { return a.source.Ask.Workload.Compare(b.source.Ask.Workload) })
	return moves, ctx.Err()
}

// movableEngine is engineOf, but what is not to move is entered as moving already,
// which is left alone.
func movableEngine(view *psg.Snapshot, movable map[psg.RequestID]bool) *placement.Engine {
	engine := engineOf(view)
	for p := range view.Placements.All() {
		if !movable[p.Ask.ID] {
			held := *p
			held.State = psg.Moving
			engine.Apply(psg.Placed{Placement: held})
		}
	}
	return engine
}
