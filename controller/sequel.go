package controller

import (
	"context"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/placement"
)

// maxJudged and judgeFor bound how often, and for how long, one cycle asks policy
// about placements that others of the same plan have changed the ground for. The
// rest of the plan is left to the next cycle: facts and other asks wait for it.
const (
	maxJudged = 256
	judgeFor  = 250 * time.Millisecond
)

// judging asks policy about a plan's placements, each as those before it leave the
// cluster. Rulings are made on one snapshot: where policy allows one training
// workload on a node, they allow each of two.
type judging struct {
	by      choice
	rulings map[psg.WorkloadID]*psg.Ruling                               // that the plan was made from
	rule    func(ask psg.Ask, ground *psg.Snapshot) (*psg.Ruling, error) // anew
	trial   placement.Trial                                              // what the plan comes of
	sequel  psg.Sequel
	ground  *psg.Snapshot // by.view after the first settled placements of kept
	settled int

	kept    psg.Plan
	denied  []psg.Refusal // beside what is kept; if that is nothing, they are told
	refused []psg.Refusal // of what nothing is left to be tried for
	cut     bool          // more may come of choosing again on what is kept

	mends  int                  // rulings made for gangs
	alone  int                  // and for asks of none
	mended time.Duration        // time spent on them
	aside  int                  // of the sequel's judgements, those made for them
	left   map[psg.GangID]trail // gangs that are half done
}

// lawful returns the part of a plan that policy allows taken together. What it
// leaves out stays pending and, as cut says, is to be solved anew on what was
// placed; gangs are kept or left out whole. A plan of which nothing can stand gets
// refusals instead.
func (j *judging) lawful(ctx context.Context, plan psg.Plan) (kept psg.Plan, cut bool, err error) {
	j.ground, j.kept, j.left = j.by.view, plan, map[psg.GangID]trail{}
	j.kept.Placements = nil
	j.free(plan.Consumed)
	began := time.Now()
	for i, unit := range units(plan.Placements, j.by.view) {
		if j.sequel.Judged()-j.aside >= maxJudged || i > 0 && time.Since(began)-j.mended >= judgeFor {
			j.cut = true
			break
		}
		if err := j.judge(ctx, unit); err != nil {
			return psg.Plan{}, false, err
		}
	}
	more := len(j.denied)+len(j.refused) > 0 && len(j.kept.Placements) > 0
	j.kept.Refusals = append(j.kept.Refusals, j.refused...)
	if !more {
		j.kept.Refusals = append(j.kept.Refusals, j.denied...)
	}
	j.kept.Consumed = usedBy(j.kept.Consumed, j.kept.Placements, j.by.view)
	*j.by.trails = j.left
	return j.kept, j.cut || more, nil
}

// judge keeps all of a unit, or nothing of it.
func (j *judging) judge(ctx context.Context, unit []psg.Placement) error {
	at, reasons, err := admitFrom(ctx, j.sequel, unit, 0, j.by.view)
	if err != nil {
		return err
	}
	if len(reasons) == 0 {
		j.kept.Placements = append(j.kept.Placements, unit...)
		return nil
	}
	m := &mending{gang: gangIn(j.by.view, unit[0]), unit: unit, at: at, why: reasons}
	if !j.turn(m.gang) {
		if m.gang == "" {
			j.denied = append(j.denied, deniedAfter(unit, reasons)...)
		}
		j.cut = j.cut || m.gang != "" // its turn comes when those before it are done, or gone
		j.release(m)
		return nil
	}
	m.rulings = map[psg.WorkloadID]*psg.Ruling{}
	for _, p := range unit {
		m.rulings[p.Ask.Workload] = j.rulings[p.Ask.Workload]
	}
	return j.mend(ctx, m)
}

func gangIn(view *psg.Snapshot, p psg.Placement) psg.GangID {
	if w := view.Workload(p.Ask.Workload); w != nil {
		return w.Gang
	}
	return ""
}

// units groups placements that stand or fall together: a gang's, or one alone.
func units(placements []psg.Placement, view *psg.Snapshot) [][]psg.Placement {
	var out [][]psg.Placement
	gangs := map[psg.GangID]int{}
	for _, p := range placements {
		gang := gangIn(view, p)
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
	at, reasons, err := admitFrom(ctx, sequel, unit, 0, view)
	if err != nil || len(reasons) > 0 {
		for _, before := range unit[:at] {
			sequel.Free(before.Ask.ID)
		}
	}
	return reasons, err
}

// admitFrom admits a unit from a member on. It returns the first that is denied,
// and why; those before it count.
func admitFrom(ctx context.Context, sequel psg.Sequel, unit []psg.Placement, at int, view *psg.Snapshot) (int, []psg.Reason, error) {
	for ; at < len(unit); at++ {
		w := view.Workload(unit[at].Ask.Workload)
		if w == nil {
			continue // seen running without a registration: nothing to judge by
		}
		if reasons, err := sequel.Admit(ctx, w, unit[at]); err != nil || len(reasons) > 0 {
			return at, reasons, err
		}
	}
	return at, nil, nil
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
