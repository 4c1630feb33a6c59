package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/psgrid/psg"
)

// errNoRoom is why an allocation has nowhere to go.
var errNoRoom = fmt.Errorf("no other node has room: %w", psg.ErrBusy)

// destination reserves room for a move on the first of its nodes that has any.
func (c *Controller) destination(ctx context.Context, wanted *wantedMove) (psg.Placement, error) {
	source := &wanted.source
	for _, node := range wanted.to {
		if err := ctx.Err(); err != nil {
			return psg.Placement{}, err
		}
		held, refused, err := c.reserve(ctx, psg.Reservation{
			ID: reservationID(movePrefix, source.Ask.ID), Workload: source.Ask.Workload,
			Count: 1, Node: node, Hold: steerHold,
		})
		if err != nil {
			return psg.Placement{}, fmt.Errorf("reserve room on %s: %w", node, err)
		}
		if len(refused) == 0 && len(held) == 1 {
			return held[0], nil
		}
	}
	return psg.Placement{}, fmt.Errorf("move %s: %w", source.Ask.Alloc, errNoRoom)
}

// roomiest are the ready nodes but one, those with the most free CPU first.
func (c *Controller) roomiest(not psg.NodeID) []psg.NodeID {
	view := c.Snapshot()
	free := map[psg.NodeID]int64{}
	for _, n := range view.Nodes {
		if n.Ready && n.ID != not {
			free[n.ID] = n.Capacity[psg.CPU]
		}
	}
	for p := range view.Placements.All() {
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
