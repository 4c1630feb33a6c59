package placement

import (
	"fmt"
	"maps"
	"slices"

	"github.com/psgrid/psg"
)

func (e *Engine) joinGang(w *workload) {
	if w.spec.Gang == "" {
		return
	}
	members := e.gangs[w.spec.Gang]
	if members == nil {
		members = make(map[psg.WorkloadID]*workload)
		e.gangs[w.spec.Gang] = members
	}
	members[w.id] = w
}

func (e *Engine) leaveGang(w *workload) {
	members := e.gangs[w.spec.Gang]
	delete(members, w.id)
	if len(members) == 0 {
		delete(e.gangs, w.spec.Gang)
	}
}

// decideGang places all asks of a gang, or none: a gang that is not complete,
// or does not fit as a whole, holds nothing.
func (s *solver) decideGang(gang psg.GangID) {
	var asks []int
	for _, at := range s.gangs[gang] {
		if !s.answers[at].given() {
			asks = append(asks, at)
		}
	}
	asks = s.withoutSpare(asks)
	if missing := s.missing(gang, asks); missing != "" {
		s.refuseGang(gang, asks, missing)
		return
	}
	s.placeGang(gang, asks, &Retry{})
}

// withoutSpare has reservations of a gang wait that its allocations, which ask as
// well, need no more: with both it would want more than it is, and might get nothing.
func (s *solver) withoutSpare(asks []int) []int {
	gated, fresh := s.counted(asks)
	return slices.DeleteFunc(asks, func(at int) bool {
		ask, w := &s.p.Asks[at], s.works[at]
		if ask.Alloc != "" || gated[w.id] == 0 || s.instances(w, gated, fresh) <= w.spec.Count {
			return false
		}
		fresh[w.id]--
		s.answers[at].refuse(ask, psg.Queued, psg.Reason{Source: "gang", Text: "its allocations ask for room themselves"})
		return true
	})
}

// placeGang places asks of a gang one after another, but for those that a retry
// keeps. If one does not fit, all are refused.
func (s *solver) placeGang(gang psg.GangID, asks []int, r *Retry) {
	mark := len(s.journal)
	for placed, at := range asks {
		if placed < r.Keep {
			continue
		}
		w, c := s.admit(at)
		if c != nil && (s.placeOn(at, w, c, r.On) || s.place(at, w, c)) || s.answers[at].placement != nil {
			continue
		}
		if s.answers[at].deferred != nil {
			s.why.now(s, at) // while the others hold their places: without them it would fit
		}
		if gang == "" {
			return // one alone
		}
		reason := fmt.Sprintf("%d of %d fit; then %s", placed, len(asks), s.answers[at].refusal.Summary)
		s.undo(mark)
		for _, kept := range asks[:r.Keep] {
			s.answers[at].refusal.State = psg.Queued // denied beside them only
			s.takeBack(kept)
		}
		s.refuseGang(gang, asks, reason)
		return
	}
}

// counted are the asks of each workload: of allocations, and others.
func (s *solver) counted(asks []int) (gated, fresh map[psg.WorkloadID]int) {
	gated, fresh = make(map[psg.WorkloadID]int), make(map[psg.WorkloadID]int)
	for _, at := range asks {
		if ask := &s.p.Asks[at]; ask.Alloc != "" {
			gated[ask.Workload]++
		} else {
			fresh[ask.Workload]++
		}
	}
	return gated, fresh
}

// instances is how many a workload would have with all asks placed. An allocation
// takes the place of a reservation, so that it does not count beside it.
func (s *solver) instances(w *workload, gated, fresh map[psg.WorkloadID]int) int {
	reserved := len(s.reservations(&psg.Ask{Alloc: "any"}, w))
	return len(w.held) - reserved + max(reserved, gated[w.id]) + fresh[w.id]
}

// missing says which instances a gang still lacks, or "". An allocation takes
// the place of a reservation, so that it does not count beside it.
func (s *solver) missing(gang psg.GangID, asks []int) string {
	gated, fresh := s.counted(asks)
	members := slices.SortedFunc(maps.Values(s.e.gangs[gang]), func(a, b *workload) int { return a.id.Compare(b.id) })
	for _, w := range members {
		if have := s.instances(w, gated, fresh); have < w.spec.Count {
			return fmt.Sprintf("%s has %d of %d instances", w.id, have, w.spec.Count)
		}
	}
	return ""
}

// refuseGang queues every ask of a gang, keeping what an ask was told that is
// more than "not all fit": denied, or elsewhere.
func (s *solver) refuseGang(gang psg.GangID, asks []int, reason string) {
	text := fmt.Sprintf("gang %s waits: %s", gang, reason)
	for _, at := range asks {
		a := &s.answers[at]
		if _, held := s.e.held[s.p.Asks[at].ID]; held || a.refusal != nil && a.refusal.State != psg.Queued {
			continue
		}
		r := psg.Refusal{Ask: s.p.Asks[at].ID, State: psg.Queued}
		if a.refusal != nil {
			r = *a.refusal
			r.Remedies = nil // of one instance: the others would need their own
		}
		r.Summary = text
		r.Excluded = slices.Concat([]psg.Exclusion{{Reason: psg.Reason{Source: "gang", Text: text}}}, r.Excluded)
		*a = answer{refusal: &r}
	}
}
