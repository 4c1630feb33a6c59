package controller

import (
	"time"

	"github.com/psgrid/psg"
)

// shiftOf is the shift of a job that this controller knows to run, if any.
func (s *steers) shiftOf(job psg.JobID) *shift {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shifts[job]
}

// begin has a job's shift looked after from a time on.
func (s *steers) begin(job psg.JobID, one *shift, from time.Time) {
	s.mu.Lock()
	s.shifts[job] = one
	if s.jobs[job] == nil {
		s.jobs[job] = new(steerJob)
	}
	s.jobs[job].due = from
	s.mu.Unlock()
	signal(s.news)
}

// keep remembers a shift that an earlier leader has begun, unless one of the job
// is known to run, or this version's to have ended, and returns what runs, and
// whether it is that one; one may be nil.
func (s *steers) keep(job psg.JobID, version uint64, one *shift) (runs *shift, kept bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	noted := s.jobs[job]
	over := noted != nil && noted.over != 0 && noted.over >= version
	if kept = s.shifts[job] == nil && one != nil && !over; kept {
		s.shifts[job] = one
	}
	return s.shifts[job], kept
}

// end forgets a shift, and has the job looked at for what had to wait until then. The
// ledger may show for a while that a version of the job has the shift.
func (s *steers) end(job psg.JobID, version uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.shifts, job)
	if noted := s.jobs[job]; noted != nil {
		noted.over, noted.due = version, time.Now()
		signal(s.news)
	}
}
