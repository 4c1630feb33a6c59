package controller

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/psgrid/psg"
)

const (
	// mandateEvery is how often mandates are repeated, and mandateHolds how long
	// each holds: an agent that hears no more of a leader stops acting by it.
	mandateEvery = 5 * time.Second
	mandateHolds = 30 * time.Second
	// judgedFor is how long it is gone by what policy said of a workload.
	judgedFor = time.Minute
	// maxRulings bounds how many workloads policy is asked of in one round. What was
	// not asked yet neither yields nor is protected.
	maxRulings = 512
	// preemptibleFloor is the part of what a preemptible allocation asked for that
	// it is always left with; all others are left with all of it.
	preemptibleFloor = 10
)

// judged is what policy said of a workload.
type judged struct {
	version   uint64
	at        time.Time
	protected bool
}

// Entrust tells agents whom to protect and who may be throttled for it, again and
// again while this controller leads: it is one of Config.Duties.
func (a *Agents) Entrust(ctx context.Context) error {
	clear(a.entrusted)
	again := time.NewTicker(mandateEvery)
	defer again.Stop()
	for {
		if err := a.entrust(ctx, time.Now()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-again.C:
		}
	}
}

// entrust sends a mandate to each node where there is somebody to protect and
// somebody who may yield, and takes it back where there no longer is.
func (a *Agents) entrust(ctx context.Context, now time.Time) error {
	if err := a.decider.mustLead(); err != nil {
		return err
	}
	view := a.decider.Snapshot()
	a.forgetGone(view)
	charges, err := a.charges(ctx, view, now)
	if err != nil {
		return err
	}
	for _, n := range view.Nodes {
		mandate := psg.Mandate{CPU: n.Capacity[psg.CPU], Charges: charges[n.ID]}
		wanted := worthwhile(mandate.Charges) && mandate.CPU > 0
		if !wanted && !a.entrusted[n.ID] {
			continue
		}
		if !wanted { // the last one is taken back
			mandate.Charges, mandate.CPU = nil, max(1, mandate.CPU)
		}
		order := psg.Order{Kind: psg.Entrust, Node: n.ID, Deadline: mandateHolds, Mandate: &mandate}
		_, forget, err := a.give(&order)
		forget() // it is reported only when refused
		if err != nil {
			a.decider.config.Log.Warn("mandate not sent", "node", n.ID, "error", err)
			continue
		}
		a.entrusted[n.ID] = wanted
	}
	return nil
}

// forgetGone forgets the nodes that are gone.
func (a *Agents) forgetGone(view *psg.Snapshot) {
	gone := func(node psg.NodeID) bool { _, known := view.Row(node); return !known }
	maps.DeleteFunc(a.entrusted, func(node psg.NodeID, _ bool) bool { return gone(node) })
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.reports, func(node psg.NodeID, _ []psg.Report) bool { return gone(node) })
}

func worthwhile(charges []psg.Charge) bool {
	return slices.ContainsFunc(charges, func(c psg.Charge) bool { return c.Protected }) &&
		slices.ContainsFunc(charges, func(c psg.Charge) bool { return c.Yields })
}

// charges are what each node's agent is to know of its allocations, by
// allocation.
func (a *Agents) charges(ctx context.Context, view *psg.Snapshot, now time.Time) (map[psg.NodeID][]psg.Charge, error) {
	policy, left := a.decider.policy(), maxRulings
	charges := map[psg.NodeID][]psg.Charge{}
	seen := map[psg.WorkloadID]judged{}
	for p := range view.Placements.All() {
		w := view.Workload(p.Ask.Workload)
		if w == nil || p.Ask.Alloc == "" || p.State != psg.Running && p.State != psg.Granted && !p.State.Leaves() {
			continue
		}
		said, known := seen[w.ID]
		if !known {
			said, known = a.judged[w.ID]
			known = known && said.version == w.Version
		}
		if (!known || now.Sub(said.at) >= judgedFor) && left > 0 {
			left--
			ruling, err := policy.Rule(ctx, w, view)
			if err != nil {
				return nil, err
			}
			said, known = judged{w.Version, now, len(ruling.Protected) > 0}, true
		}
		if known {
			seen[w.ID] = said
			charges[p.Node] = append(charges[p.Node], charge(w, p, said.protected))
		}
	}
	a.judged = seen
	for _, of := range charges {
		slices.SortFunc(of, func(x, y psg.Charge) int { return cmp.Compare(x.Alloc, y.Alloc) })
	}
	return charges, nil
}

// charge says what one allocation is to its neighbours: protected if it declares
// a probe or policy protects it; else it yields if it is preemptible or batch.
func charge(w *psg.Workload, p *psg.Placement, protected bool) psg.Charge {
	c := psg.Charge{Alloc: p.Ask.Alloc, Workload: w.ID, Probe: w.Probe, Protected: protected || w.Probe != nil}
	if c.Protected {
		return c
	}
	c.Yields = w.Preemptible || w.Type == psg.Batch || w.Type == psg.SysBatch
	if c.Yields {
		c.Floor = p.Request
		if w.Preemptible {
			for d := range c.Floor {
				c.Floor[d] /= preemptibleFloor
			}
		}
	}
	return c
}
