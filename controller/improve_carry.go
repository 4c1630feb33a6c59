package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/placement"
)

// errPast is why a move that was found is not made any more: what it was found in
// has changed.
var errPast = errors.New("things have changed")

// carryOut makes moves that were found in their order. It returns an error only
// where the duty ends.
func (c *Controller) carryOut(ctx context.Context, moves []placement.Move) error {
	to := c.steers.orchestrator()
	if to == nil {
		return nil
	}
	for len(moves) > 0 {
		next, err := alone(moves), error(nil)
		if len(next) > 0 {
			err = c.beginAlone(ctx, next, to)
		} else {
			next = chain(moves)
			err = c.carry(ctx, next, to)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, psg.ErrNotLeader):
			return err
		case err != nil:
			c.config.Log.Warn("not improved", "moves", len(next), "workload", next[0].Placement.Ask.Workload, "error", err)
		}
		moves = moves[len(next):]
	}
	return nil
}

// chain are the first of some moves that pay only together.
func chain(moves []placement.Move) []placement.Move {
	for i := range moves {
		if moves[i].Chain != moves[0].Chain {
			return moves[:i]
		}
	}
	return moves
}

// alone are the first of some moves, up to one that pays only with others.
func alone(moves []placement.Move) []placement.Move {
	for i := range moves {
		if len(chain(moves[i:])) > 1 {
			return moves[:i]
		}
	}
	return moves
}

// beginAlone begins moves of which each pays by itself, those that still do.
func (c *Controller) beginAlone(ctx context.Context, moves []placement.Move, to Orchestrator) error {
	within, cancel := context.WithTimeout(ctx, c.steers.within)
	defer cancel()
	done, err := c.steers.turn(within)
	if err != nil {
		return err
	}
	defer done()
	stage, err := c.stage(within, moves)
	if err != nil {
		return err
	}
	var wanted []wantedMove
	for i := range moves {
		one := moves[i : i+1]
		move, err := c.wantedOf(&one[0])
		if err == nil {
			err = stage.rehearse(one)
		}
		if err != nil {
			c.config.Log.Info("not moved", "workload", one[0].Placement.Ask.Workload, "reason", err)
			continue
		}
		wanted = append(wanted, move)
	}
	slices.SortStableFunc(wanted, func(a, b wantedMove) int {
		return cmp.Or(a.source.Ask.Workload.Compare(b.source.Ask.Workload), cmp.Compare(a.from(), b.from()))
	})
	orders, err := c.beginAll(within, wanted, len(wanted), to)
	c.unrest.begun(wanted, orders, time.Now())
	return err
}

// wantedOf is a move that was found as it is to be made, if what is to move is
// where it was found.
func (c *Controller) wantedOf(move *placement.Move) (wantedMove, error) {
	id := move.Placement.Ask.ID
	source, _ := c.Ask(id)
	if source.State != psg.Running || source.Placement == nil || source.Placement.Node != move.From || c.inWay(id) {
		return wantedMove{}, fmt.Errorf("%.8s does not run on %s any more: %w", id, move.From, errPast)
	}
	wanted := wantedMove{source: source, to: []psg.NodeID{move.Placement.Node}, there: map[psg.RequestID]bool{}}
	_, asks := c.job(source.Ask.Workload.JobID())
	for i := range asks {
		if on(&asks[i], source.Ask.Workload, wanted.to[0]) {
			wanted.there[asks[i].Ask.ID] = true
		}
	}
	return wanted, nil
}

// stage is the cluster as it stood a moment ago, to rehearse moves on.
type stage struct {
	engine  *placement.Engine
	problem placement.Problem
}

// stage sets the stage for moves.
func (c *Controller) stage(ctx context.Context, moves []placement.Move) (*stage, error) {
	view, policy := c.Snapshot(), c.policy()
	asks := make([]psg.Ask, len(moves))
	for i := range moves {
		asks[i] = moves[i].Placement.Ask
	}
	rulings, err := rule(ctx, policy, asks, view)
	if err != nil {
		return nil, fmt.Errorf("rehearse moves: %w", err)
	}
	seed, _, _ := c.Position()
	engine, now := engineOf(view), time.Now()
	c.bind(engine, policy, rulings, nil, view, now)
	return &stage{engine, placement.Problem{Now: now, Seed: seed, Rulings: rulings, Rows: rows(view)}}, nil
}

// rehearse reports why moves cannot all be made one after the other any more, or
// are not worth it.
func (s *stage) rehearse(moves []placement.Move) error {
	made, gain := s.engine.Rehearse(s.problem, moves)
	switch {
	case made < len(moves):
		p := &moves[made].Placement
		return fmt.Errorf("%s cannot go from %s to %s any more: %w", p.Ask.Workload, moves[made].From, p.Node, errPast)
	case gain <= 0:
		return fmt.Errorf("it no longer pays: %w", errPast)
	}
	return nil
}
