package controller

import (
	"context"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/placement"
)

// minMends to maxMends is how often one cycle rules anew so as to place the rest
// of a gang, and mendFor how long: what it has no time for is left to the next.
const (
	minMends = 8
	maxMends = 256
	mendFor  = 250 * time.Millisecond
	// maxAlone is how many of them may be for asks of no gang: a next cycle, which
	// rules on all at once, places those too.
	maxAlone = 32
)

// maxTrails bounds the gangs that are left to the next cycle half done.
const maxTrails = 64

// trail is where those members of a gang stood that policy had allowed together
// when the time was up. It is where the next cycle begins: whether there is room
// there still, and policy allows it, is asked anew.
type trail map[psg.RequestID]psg.NodeID

// mending is a gang of which policy denies a member as the ones before it leave
// the cluster. Ruled on one snapshot, its members may be put where only one of
// them may be; and none is ever placed for a later cycle's ruling to see. An ask of
// no gang is mended as if it were one.
type mending struct {
	gang     psg.GangID // may be empty
	unit     []psg.Placement
	at       int          // the member that is denied; those before it are admitted
	why      []psg.Reason // none: all are admitted
	rulings  map[psg.WorkloadID]*psg.Ruling
	barred   []psg.Denial // where the member was denied although its ruling allows it
	consumed []psg.RequestID
}

// turn reports whether a gang may be mended: while some are half done, no other
// is begun, so that each comes to its end.
func (j *judging) turn(gang psg.GangID) bool {
	if gang == "" {
		return j.alone < maxAlone && j.mended < mendFor
	}
	_, begun := (*j.by.trails)[gang]
	return begun || len(*j.by.trails) == 0
}

// spent reports whether a mending that has taken so long has had its time.
func (j *judging) spent(m *mending, took time.Duration) bool {
	if m.gang == "" {
		return j.alone >= maxAlone || j.mended+took >= mendFor
	}
	return j.mends >= minMends && (j.mends >= maxMends || j.mended+took >= mendFor)
}

// mend places a gang anew member by member: those that are admitted stay, and the
// rest is solved again under what policy says with them in place.
func (j *judging) mend(ctx context.Context, m *mending) error {
	began, judged := time.Now(), j.sequel.Judged()
	defer func() {
		j.mended += time.Since(began)
		j.aside += j.sequel.Judged() - judged
	}()
	refusals, err := j.resume(ctx, m)
	for err == nil && len(refusals) == 0 && len(m.why) > 0 {
		if j.spent(m, time.Since(began)) {
			j.leave(m)
			return nil
		}
		refusals, err = j.advance(ctx, m)
	}
	switch {
	case err != nil:
		return err
	case len(refusals) > 0:
		j.refused = append(j.refused, refusals...)
	default:
		j.keep(m)
	}
	return nil
}

// resume puts a gang where the last cycle left it. It returns why that cannot be.
func (j *judging) resume(ctx context.Context, m *mending) ([]psg.Refusal, error) {
	on := (*j.by.trails)[m.gang]
	if len(on) == 0 {
		return nil, nil
	}
	j.release(m)
	plan := j.trial.Again(m.retry(0, on))
	if len(plan.Refusals) > 0 { // the others do not fit around them any more
		plan = j.trial.Again(m.retry(0, nil))
	}
	if len(plan.Refusals) > 0 { // nor in the order in which they are mended
		return plan.Refusals, nil
	}
	return nil, j.admit(ctx, m, plan, j.by.view)
}

// advance places the members from the denied one on, under a ruling that sees
// those before it. It returns why that cannot be.
func (j *judging) advance(ctx context.Context, m *mending) ([]psg.Refusal, error) {
	if m.gang == "" {
		j.alone++
	} else {
		j.mends++
	}
	ground, ask := j.with(m.unit[:m.at]), m.unit[m.at].Ask
	ruling, err := j.rule(ask, ground)
	if err != nil {
		return nil, err
	}
	if len(m.barred) > 0 {
		ruling = denied(ruling, m.barred)
	}
	m.rulings[ask.Workload] = ruling
	plan := j.trial.Again(m.retry(m.at, nil))
	if len(plan.Refusals) > 0 {
		j.release(m)
		return plan.Refusals, nil
	}
	before := m.at
	if err := j.admit(ctx, m, plan, ground); err != nil || len(m.why) == 0 {
		return nil, err
	}
	if m.at > before {
		m.barred = nil
	} else if row, known := ground.Row(m.unit[m.at].Node); known {
		rows := psg.NewBitmap(len(ground.Nodes))
		rows.Set(row)
		m.barred = append(m.barred, psg.Denial{Reason: m.why[0], Rows: rows})
	}
	return nil, nil
}

// admit takes over what a retry made of a gang, and asks policy about the members
// that it placed.
func (j *judging) admit(ctx context.Context, m *mending, plan psg.Plan, ground *psg.Snapshot) (err error) {
	m.unit, m.consumed = plan.Placements, plan.Consumed
	audited(m.unit[m.at:], m.rulings, ground)
	j.free(plan.Consumed)
	m.at, m.why, err = admitFrom(ctx, j.sequel, m.unit, m.at, j.by.view)
	return err
}

func (m *mending) retry(keep int, on trail) placement.Retry {
	ids := make([]psg.RequestID, len(m.unit))
	for i, p := range m.unit {
		ids[i] = p.Ask.ID
	}
	return placement.Retry{Gang: m.gang, Asks: ids, Keep: keep, Rulings: m.rulings, On: on}
}

// keep has a gang be placed as it is now.
func (j *judging) keep(m *mending) {
	j.kept.Placements = append(j.kept.Placements, m.unit...)
	var consumed []psg.RequestID
	for _, id := range j.kept.Consumed {
		if p := j.by.view.Placements.Of(id); p == nil || m.rulings[p.Ask.Workload] == nil {
			consumed = append(consumed, id)
		}
	}
	j.kept.Consumed = append(consumed, m.consumed...)
}

// leave leaves the rest of a gang to the next cycle.
func (j *judging) leave(m *mending) {
	if m.gang == "" {
		j.denied = append(j.denied, deniedAfter(m.unit, m.why)...)
		return
	}
	j.cut = true
	if len(j.left) < maxTrails {
		on := trail{}
		for _, p := range m.unit[:m.at] {
			on[p.Ask.ID] = p.Node
		}
		j.left[m.gang] = on
	}
	j.release(m)
}

// release has the members that were admitted count no longer.
func (j *judging) release(m *mending) {
	for _, p := range m.unit[:m.at] {
		j.sequel.Free(p.Ask.ID)
	}
	m.at = 0
}

// free has what asks hold count no longer: reservations that are used up.
func (j *judging) free(asks []psg.RequestID) {
	now := map[psg.RequestID]*psg.Placement{}
	for _, used := range asks {
		j.sequel.Free(used)
		now[used] = nil
	}
	j.ground = changed(j.ground, now)
}

// with is the cluster as what is kept of the plan so far leaves it, and members
// of a gang after that. Of those no reservation is left out, as a ruling on their
// workload does with what it may take up.
func (j *judging) with(members []psg.Placement) *psg.Snapshot {
	now := map[psg.RequestID]*psg.Placement{}
	for _, p := range j.kept.Placements[j.settled:] {
		now[p.Ask.ID] = &p
	}
	j.settled, j.ground = len(j.kept.Placements), changed(j.ground, now)
	now = map[psg.RequestID]*psg.Placement{}
	for _, p := range members {
		p.Ask.Hold, p.State = 0, psg.Granted
		now[p.Ask.ID] = &p
	}
	return changed(j.ground, now)
}
