package controller

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/psgrid/psg"
)

const (
	maxFinished = 256              // moves that are remembered once they have ended
	recordFor   = 15 * time.Minute // then a move is not waited for any more
	recordEvery = time.Second
	// stoppedFor is how long what was stopped for a move may take to end. Nomad may
	// undo the stop: then it runs on.
	stoppedFor = 5 * time.Minute
)

// record is what moves that were begun together have come to. It is this
// controller's own account, which ends with its lead: the next has one of shifts, by
// what the ledger shows. The audit has what the ledger was told.
type record struct {
	job      psg.JobID // what is below is written by whoever holds it
	began    time.Time
	sequence uint64                 // of the ledger, then
	moves    []openMove             // once it is kept under steers.mu too: see leaving
	before   map[psg.RequestID]bool // allocations of the group that were there
	settled  bool                   // nothing is written for it any more
	givenUp  string
	versions int
	writes   int
}

// openMove is one of them that has yet to end.
type openMove struct {
	source psg.RequestID
	move   psg.Move
}

// newRecord opens the account of moves that are about to begin.
func (c *Controller) newRecord(sources []psg.AskStatus, shift bool) *record {
	r := &record{job: sources[0].Ask.Workload.JobID(), began: time.Now(), before: map[psg.RequestID]bool{}}
	r.sequence, _, _ = c.Position()
	_, asks := c.job(r.job)
	for _, status := range asks {
		r.before[status.Ask.ID] = true
	}
	for _, source := range sources {
		r.moves = append(r.moves, openMove{source.Ask.ID, psg.Move{
			Workload: source.Ask.Workload, Alloc: source.Ask.Alloc, From: source.Placement.Node, Shift: shift, Together: len(sources),
		}})
	}
	return r
}

// resumeRecord opens the account of a shift that another leader has begun, by what the
// ledger shows: its sources move since then, and what was asked for later came for
// them. The version that began it is counted; sources that have ended already are not.
func (c *Controller) resumeRecord(s *shift, asks []psg.AskStatus) {
	if len(s.legs) == 0 {
		return
	}
	r := &record{job: s.workload.JobID(), began: time.Now(), before: map[psg.RequestID]bool{}, versions: 1, writes: 1}
	r.sequence, _, _ = c.Position()
	begun := r.began
	for _, l := range s.legs {
		for _, a := range asks {
			switch {
			case a.Ask.ID == l.source && a.State.Leaves() && a.Since.Before(begun):
				begun = a.Since
			case a.Ask.ID == l.room && a.Ask.At.Before(begun):
				begun = a.Ask.At
			}
		}
	}
	for _, a := range asks {
		if a.Ask.At.Before(begun) {
			r.before[a.Ask.ID] = true
		}
	}
	for _, l := range s.legs {
		r.before[l.source] = true
		source, _ := c.Ask(l.source)
		r.moves = append(r.moves, openMove{l.source, psg.Move{
			Workload: s.workload, Alloc: source.Ask.Alloc, From: s.from, Shift: true, Together: len(s.legs),
		}})
	}
	s.record = r
	c.steers.record(r, s.legs)
}

// wrote counts what a step has cost. Of a shift of which nothing is known but that it
// runs there is no account: the record is nil.
func (r *record) wrote(version bool, stops int) {
	if r == nil {
		return
	}
	r.writes += stops
	if version {
		r.versions++
		r.writes++
	}
}

// since reports whether an allocation came after the moves had begun: it was not
// there then, and had not ended before.
func (r *record) since(s *psg.AskStatus) bool {
	return r != nil && !r.before[s.Ask.ID] && s.Sequence > r.sequence
}

func (r *record) settle() {
	if r != nil {
		r.settled = true
	}
}

func (r *record) giveUp(why string) {
	if r != nil {
		r.settled, r.givenUp = true, why
	}
}

// record keeps an account until its moves have ended.
func (s *steers) record(r *record, legs []leg) {
	s.mu.Lock()
	for i := range r.moves {
		r.moves[i].move.To = legs[i].to
	}
	s.records = append(s.records, r)
	s.mu.Unlock()
	signal(s.news)
}

// finishedFrom are the moves off a node that ended lately, oldest first.
func (s *steers) finishedFrom(node psg.NodeID) []psg.Move {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []psg.Move
	for _, m := range s.finished {
		if m.From == node {
			out = append(out, m)
		}
	}
	return out
}

// finish looks which moves have ended, and tells of them: in the log, and as the
// reason of the successor's state. Those of a job that is being changed wait.
func (c *Controller) finish(ctx context.Context, now time.Time) error {
	c.steers.mu.Lock()
	records := slices.Clone(c.steers.records)
	c.steers.mu.Unlock()
	for _, r := range records {
		release, held := c.steers.hold(r.job)
		if !held {
			continue
		}
		ended := c.ended(r, now)
		for _, m := range ended {
			for _, other := range records { // each successor is of one move
				if other.job == r.job {
					other.before[psg.RequestID(m.Successor)] = true
				}
			}
		}
		c.steers.closed(ended)
		err := c.tellEnded(ctx, ended, now) // before the successor may move on
		release()
		if err != nil {
			return err
		}
	}
	return nil
}

// tellEnded tells of moves that have ended.
func (c *Controller) tellEnded(ctx context.Context, ended []psg.Move, now time.Time) error {
	var told []psg.Delta
	for _, m := range ended {
		c.config.Log.Info("move ended", "workload", m.Workload, "alloc", m.Alloc, "successor", m.Successor, "from", m.From, "to", m.To,
			"gap", m.Gap, "versions", m.Versions, "write_requests", m.Writes, "together", m.Together, "given_up", m.GivenUp)
		if m.Successor != "" {
			why := fmt.Sprintf("moved here from %s in place of %.8s: gap %v, %d job versions and %d write requests for %d moves",
				m.From, m.Alloc, m.Gap.Round(time.Millisecond), m.Versions, m.Writes, m.Together)
			told = append(told, psg.Moved{Ask: psg.RequestID(m.Successor), State: psg.Running, Reason: why, At: now})
		}
	}
	return c.Report(ctx, told)
}

// closed forgets the records whose moves have all ended, and keeps the last of
// what has.
func (s *steers) closed(ended []psg.Move) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records = slices.DeleteFunc(s.records, func(r *record) bool { return len(r.moves) == 0 })
	s.finished = append(s.finished, ended...)
	s.finished = slices.Delete(s.finished, 0, max(0, len(s.finished)-maxFinished))
	for _, m := range ended {
		s.figures.moved(m)
	}
}

// ended takes the moves that have ended out of a record.
func (c *Controller) ended(r *record, now time.Time) (ended []psg.Move) {
	if !r.settled && now.Sub(r.began) < recordFor {
		return nil
	}
	_, asks := c.job(r.job)
	open := slices.DeleteFunc(slices.Clone(r.moves), func(o openMove) bool {
		m := o.move
		m.Versions, m.Writes, m.GivenUp, m.At = r.versions, r.writes, r.givenUp, now
		source, _ := c.Ask(o.source)
		switch took := now.Sub(r.began); {
		case m.GivenUp != "":
		case took >= recordFor:
			m.GivenUp = "its end was not seen"
		case took >= stoppedFor && !m.Shift && !source.Over() && source.State != psg.Ending:
			m.GivenUp = "it was stopped, and runs on"
		}
		next := successor(&m, r.before, asks)
		switch {
		case m.GivenUp != "":
		case next == nil || !source.Over():
			return false
		default:
			r.before[next.Ask.ID] = true
			m.Successor, m.To = next.Ask.Alloc, next.Placement.Node
			m.Gap, m.At = max(0, next.Since.Sub(source.Since)), next.Since
		}
		ended = append(ended, m)
		return true
	})
	c.steers.mu.Lock()
	defer c.steers.mu.Unlock()
	r.moves = open
	return ended
}

// successor is the allocation that runs in the place of one that moved, on whichever
// node where that is not known.
func successor(m *psg.Move, before map[psg.RequestID]bool, asks []psg.AskStatus) *psg.AskStatus {
	for i := range asks {
		a := &asks[i]
		if a.Ask.Workload == m.Workload && a.Ask.Alloc != "" && a.State == psg.Running && (m.To == "" || a.Placement.Node == m.To) && !before[a.Ask.ID] {
			return a
		}
	}
	return nil
}
