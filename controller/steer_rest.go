package controller

import (
	"time"

	"github.com/psgrid/psg"
)

// restMin is how long no instance of a job moves after one that had been hinted was given
// up; it doubles up to restMax until one succeeds.
const (
	restMin = time.Minute
	restMax = time.Hour
)

// rest keeps a job's instances from moving for a while, each time longer.
func (s *steers) rest(job psg.JobID, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if noted := s.jobs[job]; noted != nil {
		noted.rest = min(max(2*noted.rest, restMin), restMax)
		noted.still = now.Add(noted.rest)
	}
}

func (s *steers) rested(job psg.JobID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if noted := s.jobs[job]; noted != nil {
		noted.rest, noted.still = 0, time.Time{}
	}
}

// resting is how long a job's instances must not move yet.
func (s *steers) resting(job psg.JobID, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if noted := s.jobs[job]; noted != nil {
		return max(0, noted.still.Sub(now))
	}
	return 0
}
