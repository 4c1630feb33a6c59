package controller

import (
	"context"
	"time"

	"github.com/psgrid/psg"
)

// maxJudged and judgeFor bound how often, and for how long, one cycle asks policy
// about placements that others of the same plan have changed the ground for. The
// rest of the plan is left to the next cycle: facts and other asks wait for it.
const (
	maxJudged = 256
	judgeFor  = 250 * time.Millisecond
)

// lawful returns the part of a plan that policy allows taken together. Rulings
// are made on one snapshot: where policy allows one training workload on a
// node, they allow each of two. What it leaves out stays pending and, as cut says,
// is to be solved anew on what was placed; gangs are kept or left out whole. A plan
// of which nothing can stand gets refusals instead.
func lawful(ctx context.Context, sequel psg.Sequel, plan psg.Plan, view *psg.Snapshot) (kept psg.Plan, cut bool, err error) {
	for _, used := range plan.Consumed {
		sequel.Free(used)
	}
	kept = plan
	kept.Placements = nil
	var denied []psg.Refusal
	began := time.Now()
	for i, unit := range units(plan.Placements, view) {
		if sequel.Judged() >= maxJudged || i > 0 && time.Since(began) >= judgeFor {
			cut = true
			break
		}
		reasons, err := admitAll(ctx, sequel, unit, view)
		switch {
		case err != nil:
			return psg.Plan{}, false, err
		case len(reasons) == 0:
			kept.Placements = append(kept.Placements, unit...)
		default:
			denied = append(denied, deniedAfter(unit, reasons)...)
		}
	}
	if len(denied) > 0 && len(kept.Placements) == 0 {
		kept.Refusals = append(kept.Refusals, denied...)
	}
	cut = cut || len(denied) > 0 && len(kept.Placements) > 0
	kept.Consumed = usedBy(plan.Consumed, kept.Placements, view)
	return kept, cut, nil
}

// units groups placements that stand or fall together: a gang's, or one alone.
func units(placements []psg.Placement, view *psg.Snapshot) [][]psg.Placement {
	var out [][]psg.Placement
	gangs := map[psg.GangID]int{}
	for _, p := range placements {
		var gang psg.GangID
		if w := view.Workload(p.Ask.Workload); w != nil {
			gang = w.Gang
		}
		at, known := gangs[gang]
		if gang == "" || !known {
			at = len(out)
			out = append(out, nil)
			gangs[gang] = at
		}
		out[at] = append(out[at], p)
	}
	return out
}

// admitAll admits all of a unit, or nothing of it.
func admitAll(ctx context.Context, sequel psg.Sequel, unit []psg.Placement, view *psg.Snapshot) ([]psg.Reason, error) {
	for i, p := range unit {
		w := view.Workload(p.Ask.Workload)
		if w == nil {
			continue // seen running without a registration: nothing to judge by
		}
		if reasons, err := sequel.Admit(ctx, w, p); err != nil || len(reasons) > 0 {
			for _, before := range unit[:i] {
				sequel.Free(before.Ask.ID)
			}
			return reasons, err
		}
	}
	return nil, nil
}

func deniedAfter(unit []psg.Placement, reasons []psg.Reason) []psg.Refusal {
	refusals := make([]psg.Refusal, len(unit))
	for i, p := range unit {
		refusals[i] = psg.Refusal{
			Ask: p.Ask.ID, State: psg.Denied,
			Summary: reasons[0].Source + ": " + reasons[0].Text,
			Nearest: []psg.NearMiss{{Node: p.Node, Missing: reasons}},
		}
	}
	return refusals
}

// maxAudited bounds the reasons of policies in audit mode that one placement
// carries.
const maxAudited = 8

// audited notes on placements why policies in audit mode would have denied them.
func audited(placements []psg.Placement, rulings map[psg.WorkloadID]*psg.Ruling, view *psg.Snapshot) {
	for i := range placements {
		p := &placements[i]
		ruling := rulings[p.Ask.Workload]
		if row, known := view.Row(p.Node); known && ruling != nil && len(ruling.Audit) > 0 {
			reasons := ruling.WhyAudit(row)
			p.Audit = reasons[:min(len(reasons), maxAudited)]
		}
	}
}

// usedBy keeps, of the reservations that a plan uses up, as many as the kept
// placements can have used: of the same workload.
func usedBy(consumed []psg.RequestID, kept []psg.Placement, view *psg.Snapshot) []psg.RequestID {
	if len(consumed) == 0 {
		return nil
	}
	places := map[psg.WorkloadID]int{}
	for _, p := range kept {
		if p.Ask.Hold == 0 {
			places[p.Ask.Workload]++
		}
	}
	var used []psg.RequestID
	for _, id := range consumed {
		if p := view.Placements.Of(id); p != nil && places[p.Ask.Workload] > 0 {
			places[p.Ask.Workload]--
			used = append(used, id)
		}
	}
	return used
}
