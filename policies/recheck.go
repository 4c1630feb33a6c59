package policies

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/hclspec"
)

// Recheck says what denies a workload on one node once more placements hold
// room there or elsewhere; none means it is allowed. A ruling sees the snapshot
// only: whoever takes several decisions from one ruling, such as two asks for
// the same node, asks again before the second. A placement replaces one of the
// snapshot with the same ask.
func (s *Set) Recheck(ctx context.Context, w *psg.Workload, snapshot *psg.Snapshot, placed []psg.Placement, node psg.NodeID) ([]psg.Reason, error) {
	row, ok := snapshot.Row(node)
	if !ok {
		return nil, fmt.Errorf("recheck %s on node %q: %w", w.ID, node, psg.ErrUnknown)
	}
	later := *snapshot
	later.Placements = withPlaced(snapshot.Placements, placed)
	residents := residentsOf(&later)
	v := &view{nodes: make([]*document, 1), now: integer(snapshot.At.UnixNano())}
	v.nodes[0] = &document{id: node, value: nodeDocument(&later.Nodes[row], residents[row], s.bundle.Aggregates)}
	if s.viewer.cluster {
		v.cluster = clusterDocument(&later, residents)
	}
	v.sources, v.stale = s.fed.Load().at(snapshot.At)
	var ruling psg.Ruling
	workload := workloadDocument(w)
	for _, p := range s.policies {
		if p.pair == nil || p.spec.Mode == hclspec.Audit || !p.spec.Scope.Covers(w) {
			continue
		}
		c := s.column(ctx, p, p.base(v, s.config.Timeout), v, workload, nil)
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("recheck %s on node %q: %w", w.ID, node, err)
		}
		collect(&ruling, p, c)
	}
	return ruling.Why(0), nil
}

// withPlaced is a snapshot's placements with later ones among them, by request
// ID.
func withPlaced(placements, placed []psg.Placement) []psg.Placement {
	replaced := map[psg.RequestID]bool{}
	for _, p := range placed {
		replaced[p.Ask.ID] = true
	}
	out := slices.Clone(placed)
	for _, p := range placements {
		if !replaced[p.Ask.ID] {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b psg.Placement) int { return cmp.Compare(a.Ask.ID, b.Ask.ID) })
	return out
}
