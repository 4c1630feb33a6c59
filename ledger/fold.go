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
		s.changed.nodes[d.Node] = struct{}{}
	case psg.NodeObserved:
		s.observe(d)
	case psg.WorkloadChanged:
		if known := s.workloads[d.Workload.ID]; known == nil || known.Version <= d.Workload.Version || d.Workload.Version == 0 {
			s.workloads[d.Workload.ID] = &d.Workload
			s.job(d.Workload.ID).workloads[d.Workload.ID] = struct{}{}
			s.changed.workloads[d.Workload.ID] = struct{}{}
		}
	case psg.WorkloadGone:
		delete(s.workloads, d.Workload)
		s.leave(d.Workload, func(j *job) { delete(j.workloads, d.Workload) })
		s.changed.workloads[d.Workload] = struct{}{}
	case psg.Asked:
		s.ask(d.Ask, sequence)
	case psg.Refused:
		return s.refuse(d, sequence)
	case psg.Placed:
		return s.place(d.Placement, sequence)
	case psg.Moved:
		return s.move(d, sequence)
	case psg.Freed:
		return s.free(d, sequence)
	case psg.BundleChanged:
		s.bundle = d.Bundle
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
	s.changed.nodes[n.ID] = struct{}{}
}

func (s *State) observe(d psg.NodeObserved) {
	if node := s.nodes[d.Node]; node != nil {
		seen := *node
		seen.Telemetry, seen.Projection = &d.Telemetry, d.Projection
		s.nodes[d.Node] = &seen
		s.changed.nodes[d.Node] = struct{}{}
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
	s.put(&psg.AskStatus{Ask: a, State: state, Since: a.At, Sequence: sequence})
}

// put replaces where an ask stands, which nobody changes from here on.
func (s *State) put(status *psg.AskStatus) {
	id := status.Ask.ID
	s.asks[id] = status
	s.changed.asks[id] = struct{}{}
	if status.Pending() {
		s.pending[id] = status
	} else {
		delete(s.pending, id)
	}
	if status.Over() {
		s.leave(status.Ask.Workload, func(j *job) { delete(j.asks, id) })
	} else {
		s.job(status.Ask.Workload).asks[id] = status
	}
}

func (s *State) refuse(d psg.Refused, sequence uint64) error {
	status := s.asks[d.Refusal.Ask]
	if err := refusable(status, d.Refusal.Ask); err != nil {
		return err
	}
	if as := (psg.AskStatus{State: d.Refusal.State}); !as.Pending() {
		return fmt.Errorf("ask %q is refused as %s, which is no refusal", d.Refusal.Ask, d.Refusal.State)
	}
	next := *status
	if held := status.Placement; held != nil { // it waited, and gives up
		s.release(held)
		s.hold(status.Ask.ID, held, nil)
		next.Placement = nil
	}
	if status.State != d.Refusal.State {
		next.State, next.Since = d.Refusal.State, d.At
	}
	next.Refusal, next.Sequence = &d.Refusal, sequence
	s.put(&next)
	return nil
}

func refusable(status *psg.AskStatus, id psg.RequestID) error {
	switch {
	case status == nil:
		return fmt.Errorf("refused ask %q was never asked", id)
	case status.Over():
		return fmt.Errorf("refused ask %q is %s", id, status.State)
	case status.Placement != nil && !status.Placement.Waits():
		return fmt.Errorf("refused ask %q holds room on %s", id, status.Placement.Node)
	}
	return nil
}

func placeable(status *psg.AskStatus, id psg.RequestID) error {
	switch {
	case status == nil:
		return fmt.Errorf("placed ask %q was never asked", id)
	case status.Over():
		return fmt.Errorf("placed ask %q is %s", id, status.State)
	}
	return nil
}

// place takes room. A placement seen running is a fact, taken as it is; any
// other is a decision and must fit.
func (s *State) place(p psg.Placement, sequence uint64) error {
	status, fact := s.asks[p.Ask.ID], p.State == psg.Running
	if !p.State.Holds() {
		return fmt.Errorf("ask %q is placed as %s, which holds nothing", p.Ask.ID, p.State)
	}
	if fact {
		status = s.accept(p.Ask)
	} else if err := placeable(status, p.Ask.ID); err != nil {
		return err
	}
	checked := fact
	if held := status.Placement; !fact && (p.Waits() || held != nil && held.Waits()) {
		if err := s.Admission().Admit(psg.Placed{Placement: p}); err != nil {
			return err
		}
		checked = true
	}
	if err := s.take(status.Placement, &p, checked); err != nil {
		return fmt.Errorf("ask %q on node %q: %w", p.Ask.ID, p.Node, err)
	}
	s.hold(p.Ask.ID, status.Placement, &p)
	s.put(&psg.AskStatus{Ask: status.Ask, State: p.State, Since: p.Since, Sequence: sequence, Placement: &p})
	return nil
}

// hold keeps what follows from placements in step with what an ask holds: old
// until now, p from here on; nothing for nil.
func (s *State) hold(id psg.RequestID, old, p *psg.Placement) {
	s.reclaim(id, old, p)
	if p != nil && !p.Expires.IsZero() && !p.Waits() {
		s.expiring[id] = struct{}{}
	} else {
		delete(s.expiring, id)
	}
}

// accept returns the status of an ask seen running: it may never have been
// asked, or be back from the dead after its node was only cut off.
func (s *State) accept(a psg.Ask) *psg.AskStatus {
	status := s.asks[a.ID]
	switch {
	case status == nil:
		status = &psg.AskStatus{Ask: a}
	case status.Over():
		s.over = slices.DeleteFunc(s.over, func(over *psg.AskStatus) bool { return over == status })
	}
	return status
}

// take replaces what an ask holds, old or nothing, by p; on an error it still
// holds what it held. What is taken as it is is not checked.
func (s *State) take(old, p *psg.Placement, asItIs bool) error {
	if old != nil {
		if old.Node != p.Node && !asItIs {
			return fmt.Errorf("it is placed on %q already", old.Node)
		}
		s.release(old)
	}
	held := s.holdings(p.Node)
	if !asItIs {
		if err := held.fits(s.nodes[p.Node], p); err != nil {
			if old != nil {
				held.add(old)
			}
			return err
		}
	}
	held.add(p)
	return nil
}

func (s *State) move(d psg.Moved, sequence uint64) error {
	status := s.asks[d.Ask]
	if status == nil || status.Placement == nil || !movedNews(status, d) {
		return nil // seen before its placement, or told again
	}
	if !d.State.Holds() {
		return fmt.Errorf("ask %q moves to %s, which holds nothing", d.Ask, d.State)
	}
	next := *status
	next.Sequence, next.Reason = sequence, d.Reason
	if status.State == psg.Moving && d.State == psg.Ending { // of where and since when it moves there is no other account
		next.Reason, d.At = status.Reason, status.Since
	}
	if status.State == d.State {
		s.put(&next)
		return nil
	}
	moved := *status.Placement
	moved.Victims = nil
	moved.State, moved.Since = d.State, d.At
	next.State, next.Since, next.Placement = d.State, d.At, &moved
	s.hold(d.Ask, status.Placement, &moved)
	s.put(&next)
	return nil
}

// movedNews reports whether a move says something that is not known: seen again
// without a reason, a state says nothing. Nor does it that what moves runs, as it does
// until it has ended; that it moves no more has a reason. What the orchestrator stops
// ends, whatever else it was meant to do. What waits for others to make way stays
// reserved until they have, or it runs.
func movedNews(status *psg.AskStatus, d psg.Moved) bool {
	switch {
	case status.State == psg.Ending, status.Placement.Waits() && d.State != psg.Running:
		return false
	case status.State == psg.Moving && d.State == psg.Running:
		return d.Reason != ""
	}
	return status.State != d.State || d.Reason != "" && status.Reason != d.Reason
}

func (s *State) free(d psg.Freed, sequence uint64) error {
	status := s.asks[d.Ask]
	if status == nil || status.Over() {
		return nil
	}
	next := *status
	next.State, next.Since, next.Sequence = d.State, d.At, sequence
	next.Placement, next.Reason = nil, d.Reason
	if !next.Over() {
		return fmt.Errorf("ask %q ends as %s, which is no end", d.Ask, d.State)
	}
	if p := status.Placement; p != nil {
		s.release(p)
	}
	s.hold(d.Ask, status.Placement, nil)
	s.put(&next)
	s.over = append(s.over, &next)
	if len(s.over) > Remembered {
		delete(s.asks, s.over[0].Ask.ID)
		s.over[0] = nil
		s.over = s.over[1:]
	}
	return nil
}

func (s *State) release(p *psg.Placement) {
	held := s.holdings(p.Node)
	if held.remove(p); held.empty() {
		delete(s.held, p.Node) // nodes come and go, and some never were
	}
}

func (s *State) holdings(node psg.NodeID) *holdings {
	held := s.held[node]
	if held == nil {
		held = newHoldings()
		s.held[node] = held
	}
	return held
}
