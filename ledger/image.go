package ledger

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/psgrid/psg"
)

// Image returns a copy of the state.
func (s *State) Image() psg.Image {
	view := s.Snapshot(s.view.At)
	image := psg.Image{
		Sequence: s.sequence, Epoch: s.epoch, Leader: s.leader, Bundle: s.bundle,
		Nodes: view.Nodes, Workloads: view.Workloads,
		Asks: make([]psg.AskStatus, 0, len(s.asks)),
	}
	for p := range view.Placements.All() {
		image.Asks = append(image.Asks, *s.asks[p.Ask.ID])
	}
	for _, id := range slices.Sorted(maps.Keys(s.pending)) {
		image.Asks = append(image.Asks, *s.pending[id])
	}
	for _, id := range s.over {
		image.Asks = append(image.Asks, *s.asks[id])
	}
	return image
}

// FromImage returns the state that an image is of, or why it is of none.
func FromImage(image psg.Image) (*State, error) {
	s := New()
	s.sequence, s.epoch, s.leader, s.bundle = image.Sequence, image.Epoch, image.Leader, image.Bundle
	for i := range image.Nodes {
		s.changeNode(image.Nodes[i])
	}
	for i := range image.Workloads {
		w := &image.Workloads[i]
		s.workloads[w.ID] = w
		s.job(w.ID).workloads[w.ID] = struct{}{}
		s.changed.workloads[w.ID] = struct{}{}
	}
	for i := range image.Asks {
		if err := s.enter(&image.Asks[i]); err != nil {
			return nil, fmt.Errorf("image of record %d: ask %q: %w", image.Sequence, image.Asks[i].Ask.ID, err)
		}
	}
	return s, nil
}

// enter adds an ask of an image.
func (s *State) enter(status *psg.AskStatus) error {
	switch {
	case s.asks[status.Ask.ID] != nil:
		return errors.New("it is there twice")
	case status.Sequence > s.sequence:
		return fmt.Errorf("record %d changed it", status.Sequence)
	case status.State.Holds() != (status.Placement != nil):
		return fmt.Errorf("it is %s and holds %v", status.State, status.Placement)
	}
	s.asks[status.Ask.ID] = status
	if !status.Over() {
		s.job(status.Ask.Workload).asks[status.Ask.ID] = status
	}
	switch {
	case status.Over():
		s.over = append(s.over, status.Ask.ID)
	case status.Pending():
		s.pending[status.Ask.ID] = status
	default:
		s.holdings(status.Placement.Node).add(status.Placement)
		held := status.Placement
		status.Placement = nil
		s.setPlacement(status, held)
	}
	return nil
}
