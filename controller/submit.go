package controller

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/ledger"
)

// submission is what one call adds to the inbox: an ask that it names twice
// once, and a workload that several of its asks are of once.
type submission struct {
	deltas  []psg.Delta
	asks    map[psg.RequestID]psg.WorkloadID
	defined map[psg.WorkloadID]bool
}

// maxID bounds the IDs that somebody outside may choose, in bytes: those of asks
// that are over are remembered for long.
const maxID = 512

// checkAsk reports why nobody outside may ask this.
func checkAsk(ask psg.Ask) error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf(format+": %w", append(args, psg.ErrInvalid)...)
	}
	switch {
	case ask.ID == "":
		return wrong("it has no ID")
	case len(ask.ID) > maxID || len(ask.Node) > maxID:
		return wrong("an ID is %d bytes, at most %d", max(len(ask.ID), len(ask.Node)), maxID)
	case ask.Workload.Job == "" || ask.Workload.Group == "":
		return wrong("workload %q lacks a job or a group", ask.Workload)
	case ask.Alloc != "" && ask.ID != psg.RequestID(ask.Alloc):
		return wrong("ID %q is not that of its allocation %q, by which its end is told", ask.ID, ask.Alloc)
	case ask.Hold < 0 || ask.Hold > psg.MaxReservationHold:
		return wrong("hold %s is outside 0..%s", ask.Hold, psg.MaxReservationHold)
	case ask.Alloc == "" && ask.Hold == 0:
		return wrong("it has neither an allocation nor a hold: nothing would end it")
	case ask.Started && (ask.Alloc == "" || ask.Node == ""):
		return wrong("what has started has an allocation and a node")
	}
	return nil
}

// checkID refuses an ID that only asks which the controller makes itself have.
func checkID(id psg.RequestID) error {
	for _, own := range []string{heldPrefix, steerPrefix, planPrefix, movePrefix} {
		if strings.HasPrefix(string(id), own) {
			return fmt.Errorf("ID %q begins with %q, as only the controller's own do: %w", id, own, psg.ErrInvalid)
		}
	}
	return nil
}

// add puts what is new about an ask into a submission.
func (c *Controller) add(ctx context.Context, to *submission, ask psg.Ask) error {
	var known *psg.AskStatus
	var defined bool
	var pending int
	c.view(func(s *ledger.State) {
		if status := s.Ask(ask.ID); status != nil {
			copied := *status
			known = &copied
		}
		defined, pending = s.Workload(ask.Workload) != nil, s.PendingCount()
	})
	of, again := to.asks[ask.ID]
	news := !again
	if known != nil {
		of, again, news = known.Ask.Workload, true, news && ask.Started && startIsNews(known)
	}
	switch {
	case again && of != ask.Workload:
		return fmt.Errorf("%q was asked for workload %s, not %s: %w", ask.ID, of, ask.Workload, psg.ErrInvalid)
	case !news:
		return nil
	case !ask.Started && pending+len(to.asks) >= c.config.Pending:
		return fmt.Errorf("%d asks want a place: %w", pending, psg.ErrBusy)
	}
	if !defined && !to.defined[ask.Workload] {
		if err := c.define(ctx, to, ask.Workload); err != nil {
			return fmt.Errorf("workload %s: %w", ask.Workload, err)
		}
	}
	ask.At = time.Now() // an asker's own clock would say who goes first
	asked := psg.Asked{Ask: ask}
	if err := c.log.Check(asked); err != nil {
		return err
	}
	to.asks[ask.ID] = ask.Workload
	to.deltas = append(to.deltas, asked)
	return nil
}

// define adds a workload that is not known yet.
func (c *Controller) define(ctx context.Context, to *submission, id psg.WorkloadID) error {
	workload, err := c.jobs.Workload(ctx, id)
	if err != nil {
		return err
	}
	changed := psg.WorkloadChanged{Workload: workload}
	if err := c.log.Check(changed); err != nil {
		return err
	}
	to.defined[id] = true
	to.deltas = append(to.deltas, changed)
	return nil
}

// startIsNews reports whether that an allocation started by itself changes what
// is known of it. What has a place keeps it, with its devices; what has ended in
// good order is not back: the report of its start came late.
func startIsNews(status *psg.AskStatus) bool {
	return status.Pending() || status.State == psg.Lost
}
