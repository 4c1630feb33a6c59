package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/ledger"
)

// steers is which jobs are to be attended to, and when: at most one entry for
// each job with something to do, or that was changed lately.
type steers struct {
	news   chan struct{} // holds a token while there is something new to look at
	moving chan struct{} // holds a token while a request for moves is carried out
	asking chan struct{} // holds a token for each request for moves
	within time.Duration // how long one may take

	mu        sync.Mutex
	to        Orchestrator // nil while nobody attends: then nothing is noted
	jobs      map[psg.JobID]*steerJob
	shifts    map[psg.JobID]*shift // that run; each has its entry in jobs
	held      map[psg.JobID]bool   // that are being changed: see hold
	records   []*record            // of moves that have yet to end
	finished  []psg.Move           // the last that have, oldest first; at most maxFinished
	landings  map[psg.NodeID]*landing
	emptied   map[psg.NodeID]time.Time // when that was last asked for, if lately
	blocked   map[psg.BlockReason]int  // as of the last look; never changed, only replaced
	blockages []psg.Blockage           // likewise
	figures   SteerFigures
}

type steerJob struct {
	due    time.Time // zero means nothing to do
	first  time.Time // of the news that it has yet to be attended to for
	failed time.Duration
	budget budget
	gone   []psg.NodeID  // nodes it may be hinted to in vain: lost, or of moves that were given up
	lost   time.Time     // when the last of them was
	rest   time.Duration // how long its instances do not move after a move was given up
	still  time.Time     // until when
	over   uint64        // the version of the job whose shift has ended
	blind  *blind        // its allocations are stopped without a hint; never changed, only replaced

	stopped map[psg.AllocID]time.Time // strays that are about to end

	waits   time.Time // since when a change of it waits for what starts
	asked   time.Time // when it was last asked whether it still does
	patient bool      // it has not been said that it no longer does
}

// SteerFigures counts what steering has cost since this controller started.
type SteerFigures struct {
	Versions int           // job versions written
	Stops    int           // allocations stopped for others to start elsewhere
	Moves    int           // that have ended well
	GivenUp  int           // moves that have not
	Gap      time.Duration // in which neither of the two ran, over all Moves
}

func (f *SteerFigures) moved(m psg.Move) {
	if m.GivenUp != "" {
		f.GivenUp++
		return
	}
	f.Moves++
	f.Gap += m.Gap
}

func newSteers() *steers {
	return &steers{
		news: make(chan struct{}, 1), moving: make(chan struct{}, 1),
		asking: make(chan struct{}, maxRebalances), within: rebalanceWithin,
		jobs: map[psg.JobID]*steerJob{}, shifts: map[psg.JobID]*shift{}, held: map[psg.JobID]bool{}, landings: map[psg.NodeID]*landing{}, emptied: map[psg.NodeID]time.Time{},
	}
}

// Figures returns what steering has cost.
func (c *Controller) Figures() SteerFigures {
	c.steers.mu.Lock()
	defer c.steers.mu.Unlock()
	return c.steers.figures
}

func (s *steers) open(to Orchestrator) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.to, s.records, s.finished = to, nil, nil
	s.forget()
	clear(s.jobs)
	clear(s.shifts)
}

func (s *steers) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.to = nil
	s.forget()
}

// forget drops what readers are shown: another leader knows better from now on.
func (s *steers) forget() {
	s.blocked, s.blockages = nil, nil
	clear(s.landings)
}

func (s *steers) orchestrator() Orchestrator {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.to
}

// turn waits for its turn to begin moves, unless too many wait already; done
// gives it to the next. The error is psg.ErrBusy, or that ctx was cancelled.
func (s *steers) turn(ctx context.Context) (done func(), err error) {
	select {
	case s.asking <- struct{}{}:
	default:
		return nil, fmt.Errorf("%d requests for moves wait for each other: %w", maxRebalances, psg.ErrBusy)
	}
	select {
	case s.moving <- struct{}{}:
		return func() { <-s.moving; <-s.asking }, nil
	case <-ctx.Done():
		<-s.asking
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, fmt.Errorf("others' moves are still being begun: %w", psg.ErrBusy)
		}
		return nil, ctx.Err()
	}
}

// note has a job attended to once it has settled, or there was news of it for long.
func (s *steers) note(job psg.JobID, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.to == nil {
		return
	}
	known := s.jobs[job]
	if known == nil {
		known = new(steerJob)
		s.jobs[job] = known
	}
	if known.failed == 0 || known.due.IsZero() { // else it is due again after its failure
		if known.first.IsZero() {
			known.first = now
		}
		known.due = now.Add(settle)
		if last := known.first.Add(settleWithin); known.due.After(last) {
			known.due = last
		}
	}
	signal(s.news)
}

// wait is how long until a job is due.
func (s *steers) wait(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := stageEvery
	if len(s.records) > 0 {
		next = recordEvery
	}
	for _, job := range s.jobs {
		if !job.due.IsZero() {
			next = min(next, max(0, job.due.Sub(now)))
		}
	}
	return next
}

// due returns the jobs whose time has come, the longest overdue first.
func (s *steers) due(now time.Time) []psg.JobID {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []psg.JobID
	for id, job := range s.jobs {
		switch {
		case !job.due.IsZero() && !job.due.After(now):
			ids = append(ids, id)
		case s.shifts[id] == nil && !s.held[id] && job.idle(now):
			delete(s.jobs, id)
		}
	}
	slices.SortFunc(ids, func(a, b psg.JobID) int {
		return cmp.Or(s.jobs[a].due.Compare(s.jobs[b].due), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Job, b.Job))
	})
	for _, id := range ids {
		s.jobs[id].due, s.jobs[id].first = time.Time{}, time.Time{}
	}
	return ids
}

// idle reports whether there is nothing to do for a job, nor to know of it.
func (j *steerJob) idle(now time.Time) bool {
	return j.due.IsZero() && j.budget.full.Before(now) && len(j.gone) == 0 && j.still.Add(restMax).Before(now) && j.forgotten(now) &&
		(j.blind == nil || now.Sub(j.blind.last) > 2*blindMax)
}

// done says how attending to a job went: after a failure it is tried again,
// each time later.
func (s *steers) done(id psg.JobID, now time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	job := s.jobs[id]
	switch {
	case job == nil:
	case err == nil:
		job.failed = 0
	default:
		job.failed = min(max(2*job.failed, steerRetry), stageEvery)
		job.due = now.Add(job.failed)
		signal(s.news) // the duty may be waiting for longer already
	}
}

// again has a job looked at once more then, if not before, whether or not there is
// news of it.
func (s *steers) again(id psg.JobID, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if job := s.jobs[id]; job != nil && (job.due.IsZero() || at.Before(job.due)) {
		job.due = at
		signal(s.news)
	}
}

// stops counts allocations that were stopped.
func (s *steers) stops(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.figures.Stops += n
}

// job returns a job's workloads and asks as committed.
func (c *Controller) job(id psg.JobID) (workloads []psg.Workload, asks []psg.AskStatus) {
	c.view(func(s *ledger.State) { workloads, asks = s.Job(id) })
	return workloads, asks
}
