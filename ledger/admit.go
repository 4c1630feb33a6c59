package ledger

import (
	"fmt"

	"github.com/psgrid/psg"
)

// Admission checks decisions, one after another, against the state they would
// be folded into, without changing it: what passes will fold.
type Admission struct {
	state *State
	held  map[psg.NodeID]*holdings // of the nodes touched, as they would be
	taken map[psg.RequestID]*psg.Placement
	asked map[psg.RequestID]*psg.AskStatus
	// Of those admitted: who makes way for whom.
	claims map[psg.RequestID]psg.RequestID
}

// Admission begins a check. It is over once the state changes.
func (s *State) Admission() *Admission {
	return &Admission{s, map[psg.NodeID]*holdings{}, map[psg.RequestID]*psg.Placement{}, map[psg.RequestID]*psg.AskStatus{}, map[psg.RequestID]psg.RequestID{}}
}

// Ask counts an ask as asked, for placements of it that are admitted later.
func (a *Admission) Ask(ask psg.Ask) {
	a.asked[ask.ID] = &psg.AskStatus{Ask: ask, State: psg.Submitted}
}

// Admit reports why a decision cannot be folded after those admitted before
// it, or nil and counts it as folded.
func (a *Admission) Admit(d psg.Delta) error {
	switch d := d.(type) {
	case psg.Placed:
		return a.place(&d.Placement)
	case psg.Freed:
		a.give(d.Ask)
	case psg.Refused:
		if err := refusable(a.state.asks[d.Refusal.Ask], d.Refusal.Ask); err != nil {
			return err
		}
		a.give(d.Refusal.Ask)
	}
	return nil
}

// give takes away what an ask holds.
func (a *Admission) give(id psg.RequestID) {
	if p := a.placement(id); p != nil {
		a.holdings(p.Node).remove(p)
		a.taken[id] = nil
	}
}

func (a *Admission) place(p *psg.Placement) error {
	status := a.state.asks[p.Ask.ID]
	if status == nil {
		status = a.asked[p.Ask.ID]
	}
	if err := placeable(status, p.Ask.ID); err != nil {
		return err
	}
	old := a.placement(p.Ask.ID)
	if p.Waits() {
		if err := a.claim(p, old); err != nil {
			return fmt.Errorf("ask %q on node %q: %w", p.Ask.ID, p.Node, err)
		}
		return nil
	}
	if old != nil && old.Waits() {
		if left := a.state.inWay(old, a.placement); len(left) > 0 {
			return fmt.Errorf("ask %q on node %q: %q has yet to make way", p.Ask.ID, p.Node, left[0])
		}
		if holdsSame(old, p) {
			a.taken[p.Ask.ID] = p // its room was found to be there when it was claimed
			return nil
		}
	}
	if old != nil {
		if old.Node != p.Node {
			return fmt.Errorf("ask %q: it is placed on %q already", p.Ask.ID, old.Node)
		}
		a.holdings(old.Node).remove(old)
	}
	held := a.holdings(p.Node)
	if err := held.fits(a.state.nodes[p.Node], p); err != nil {
		if old != nil {
			held.add(old)
		}
		return fmt.Errorf("ask %q on node %q: %w", p.Ask.ID, p.Node, err)
	}
	held.add(p)
	a.taken[p.Ask.ID] = p
	return nil
}

func (a *Admission) placement(ask psg.RequestID) *psg.Placement {
	if p, touched := a.taken[ask]; touched {
		return p
	}
	return a.state.placement(ask)
}

func (a *Admission) holdings(node psg.NodeID) *holdings {
	held := a.held[node]
	if held == nil {
		held = newHoldings()
		if now := a.state.held[node]; now != nil {
			held = now.clone()
		}
		a.held[node] = held
	}
	return held
}
