package controller

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

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

// emptyFor is how long after a request to empty a node none moves work to it: whoever
// wants it empty asks again sooner. Else two that are emptied at once would exchange
// what they hold again and again.
const emptyFor = 5 * time.Second

// empties notes that a node is to be emptied, and returns those that are.
func (s *steers) empties(node psg.NodeID, now time.Time) map[psg.NodeID]time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.emptied, func(_ psg.NodeID, at time.Time) bool { return now.Sub(at) > emptyFor })
	s.emptied[node] = now
	return maps.Clone(s.emptied)
}

// roomiest are the ready nodes but some, those with the most free CPU first.
func (c *Controller) roomiest(not map[psg.NodeID]time.Time) []psg.NodeID {
	view := c.Snapshot()
	free := map[psg.NodeID]int64{}
	for _, n := range view.Nodes {
		if _, left := not[n.ID]; n.Ready && !left {
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
