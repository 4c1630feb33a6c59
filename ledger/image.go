package ledger

import (
	"errors"
	"fmt"
	"slices"

	"github.com/psgrid/psg"
)

// Image returns the state as it is. It costs what has changed since the last
// snapshot and a list of the asks: what the list points to is shared.
func (s *State) Image() psg.Image {
	view := s.Snapshot(s.view.At)
	image := psg.Image{
		Sequence: s.sequence, Epoch: s.epoch, Leader: s.leader, Bundle: s.bundle,
		Nodes: view.Nodes, Workloads: view.Workloads, Asks: s.Statuses(),
	}
	return image
}

// Statuses returns where every ask stands: those that are not over by ID, then
// those that are, oldest first. They are shared and must not be changed. Like
// Snapshot it counts as a change.
func (s *State) Statuses() []*psg.AskStatus {
	s.Snapshot(s.view.At)
	return append(slices.AppendSeq(make([]*psg.AskStatus, 0, len(s.asks)), s.standing.All()), s.over...)
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
		if err := s.enter(image.Asks[i]); err != nil {
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
	case !status.State.Holds() && !status.Pending() && !status.Over():
		return fmt.Errorf("its state is %q", status.State)
	case status.State.Holds() != (status.Placement != nil):
		return fmt.Errorf("it is %s and holds %v", status.State, status.Placement)
	}
	if p := status.Placement; p != nil {
		s.holdings(p.Node).add(p)
		s.hold(status.Ask.ID, nil, p)
	}
	s.put(status)
	if status.Over() {
		s.over = append(s.over, status)
	}
	return nil
}
