package ledger

import (
	"fmt"
	"maps"

	"github.com/psgrid/psg"
)

// Admission checks decisions, one after another, against the state they would
// be folded into, without changing it: what passes will fold.
type Admission struct {
	state *State
	held  map[psg.NodeID]*holdings // of the nodes touched, as they would be
	taken map[psg.RequestID]*psg.Placement
}

// Admission begins a check. It is over once the state changes.
func (s *State) Admission() *Admission {
	return &Admission{s, map[psg.NodeID]*holdings{}, map[psg.RequestID]*psg.Placement{}}
}

// Admit reports why a decision cannot be folded after those admitted before
// it, or nil and counts it as folded.
func (a *Admission) Admit(d psg.Delta) error {
	switch d := d.(type) {
	case psg.Placed:
		return a.place(&d.Placement)
	case psg.Freed:
		if p := a.placement(d.Ask); p != nil {
			a.holdings(p.Node).remove(p)
			a.taken[d.Ask] = nil
		}
	case psg.Refused:
		return refusable(a.state.asks[d.Refusal.Ask], d.Refusal.Ask)
	}
	return nil
}

func (a *Admission) place(p *psg.Placement) error {
	if err := placeable(a.state.asks[p.Ask.ID], p.Ask.ID); err != nil {
		return err
	}
	old := a.placement(p.Ask.ID)
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
	if status := a.state.asks[ask]; status != nil {
		return status.Placement
	}
	return nil
}

func (a *Admission) holdings(node psg.NodeID) *holdings {
	held := a.held[node]
	if held == nil {
		held = newHoldings()
		if now := a.state.held[node]; now != nil {
			*held = holdings{now.request, maps.Clone(now.devices), maps.Clone(now.ports)}
		}
		a.held[node] = held
	}
	return held
}
