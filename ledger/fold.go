package ledger

import (
	"fmt"
	"slices"

	"github.com/psgrid/psg"
)

// Fold applies one delta as part of the record at sequence. Folding a delta
// again changes nothing, so a fact may be told any number of times. Facts of
// the world are taken as they are; decisions are checked.
func (s *State) Fold(d psg.Delta, sequence uint64) error {
	switch d := d.(type) {
	case psg.Led:
		s.epoch, s.leader = d.Epoch, d.Leader
	case psg.NodeChanged:
		s.changeNode(d.Node)
	case psg.NodeGone:
		delete(s.nodes, d.Node)
	case psg.NodeObserved:
		s.observe(d)
	case psg.WorkloadChanged:
		if known := s.workloads[d.Workload.ID]; known == nil || known.Version <= d.Workload.Version {
			s.workloads[d.Workload.ID] = &d.Workload
		}
	case psg.WorkloadGone:
		delete(s.workloads, d.Workload)
	case psg.Asked:
		s.ask(d.Ask, sequence)
	case psg.Refused:
		return s.refuse(d, sequence)
	case psg.Placed:
		return s.place(d.Placement, sequence)
	case psg.Moved:
		return s.move(d, sequence)
	case psg.Freed:
		s.free(d, sequence)
	default:
		return fmt.Errorf("unknown delta %T", d)
	}
	return nil
}

func (s *State) changeNode(n psg.Node) {
	known := s.nodes[n.ID]
	if known != nil {
		if known.Version > n.Version {
			return
		}
		if n.Telemetry == nil {
			n.Telemetry, n.Projection = known.Telemetry, known.Projection
		}
	}
	s.nodes[n.ID] = &n
}

func (s *State) observe(d psg.NodeObserved) {
	if node := s.nodes[d.Node]; node != nil {
		seen := *node
		seen.Telemetry = &d.Telemetry
		s.nodes[d.Node] = &seen
	}
}

func (s *State) ask(a psg.Ask, sequence uint64) {
	if s.asks[a.ID] != nil {
		return
	}
	state := psg.Submitted
	if a.Node != "" {
		state = psg.Gated
	}
	s.asks[a.ID] = &psg.AskStatus{Ask: a, State: state, Since: a.At, Sequence: sequence}
}

func (s *State) refuse(d psg.Refused, sequence uint64) error {
	status := s.asks[d.Refusal.Ask]
	switch {
	case status == nil:
		return fmt.Errorf("refused ask %q was never asked", d.Refusal.Ask)
	case status.Over():
		return fmt.Errorf("refused ask %q is %s", d.Refusal.Ask, status.State)
	case status.Placement != nil:
		return fmt.Errorf("refused ask %q holds room on %s", d.Refusal.Ask, status.Placement.Node)
	}
	if status.State != d.Refusal.State {
		status.State, status.Since = d.Refusal.State, d.At
	}
	status.Refusal, status.Sequence = &d.Refusal, sequence
	return nil
}

// place takes room. A placement seen running is a fact; any other is a
// decision and must fit.
func (s *State) place(p psg.Placement, sequence uint64) error {
	status := s.asks[p.Ask.ID]
	fact := p.State == psg.Running
	switch {
	case status == nil && fact:
		status = &psg.AskStatus{Ask: p.Ask}
		s.asks[p.Ask.ID] = status
	case status == nil:
		return fmt.Errorf("placed ask %q was never asked", p.Ask.ID)
	case status.Over() && fact: // back from the dead: its node was only cut off
		s.over = slices.DeleteFunc(s.over, func(id psg.RequestID) bool { return id == p.Ask.ID })
	case status.Over():
		return fmt.Errorf("placed ask %q is %s", p.Ask.ID, status.State)
	}
	if old := status.Placement; old != nil {
		s.holdings(old.Node).remove(old)
		if old.Node != p.Node && !fact {
			s.holdings(old.Node).add(old)
			return fmt.Errorf("ask %q is placed on %s and on %s", p.Ask.ID, old.Node, p.Node)
		}
	}
	held := s.holdings(p.Node)
	if !fact {
		if err := held.fits(s.nodes[p.Node], &p); err != nil {
			return fmt.Errorf("ask %q on node %q: %w", p.Ask.ID, p.Node, err)
		}
	}
	held.add(&p)
	status.State, status.Since, status.Sequence = p.State, p.Since, sequence
	status.Placement, status.Refusal, status.Reason = &p, nil, ""
	return nil
}

func (s *State) move(d psg.Moved, sequence uint64) error {
	status := s.asks[d.Ask]
	if status == nil || status.Placement == nil || status.State == d.State {
		return nil // seen before its placement, or told again
	}
	if !d.State.Holds() {
		return fmt.Errorf("ask %q moves to %s, which holds nothing", d.Ask, d.State)
	}
	moved := *status.Placement
	moved.State, moved.Since = d.State, d.At
	status.Placement, status.State, status.Since, status.Sequence = &moved, d.State, d.At, sequence
	return nil
}

func (s *State) free(d psg.Freed, sequence uint64) {
	status := s.asks[d.Ask]
	if status == nil || status.Over() {
		return
	}
	if p := status.Placement; p != nil {
		s.holdings(p.Node).remove(p)
	}
	status.State, status.Since, status.Sequence = d.State, d.At, sequence
	status.Placement, status.Refusal, status.Reason = nil, nil, d.Reason
	s.over = append(s.over, d.Ask)
	if len(s.over) > Remembered {
		delete(s.asks, s.over[0])
		s.over = s.over[1:]
	}
}

func (s *State) holdings(node psg.NodeID) *holdings {
	held := s.held[node]
	if held == nil {
		held = &holdings{devices: map[psg.DeviceID]deviceUse{}, ports: map[portKey]int{}}
		s.held[node] = held
	}
	return held
}
