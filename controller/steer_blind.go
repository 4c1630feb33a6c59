package controller

import (
	"fmt"
	"strings"
	"time"

	"github.com/psgrid/psg"
)

// maxBlind is how often in a row allocations of a job are stopped although no hint
// leads Nomad to where they are planned; then they wait blindMin for the next time,
// and twice as long each time after, up to blindMax. One that finds room where it
// is starts meanwhile.
const (
	maxBlind = 3
	blindMin = time.Minute
	blindMax = time.Hour
)

// blind is how allocations were stopped of a job that cannot be hinted: Nomad starts
// others wherever it likes.
type blind struct {
	why     string
	version uint64 // of the job, when it could not be
	stops   int    // times, not allocations
	last    time.Time
	next    time.Time // when it is done again
}

// wait is how long nothing is done about the strays of a job that cannot be hinted.
// As another version it may be.
func (b *blind) wait(version uint64, now time.Time) time.Duration {
	if b == nil || b.version != version {
		return 0
	}
	return max(0, b.next.Sub(now))
}

// after is a job's blindness after one more stop without a hint, for a reason.
func (b *blind) after(why error, version uint64, now time.Time) *blind {
	next := blind{version: version, why: untold(why), stops: 1, last: now}
	if b != nil && b.version == version {
		next.stops += b.stops
	}
	if over := next.stops - maxBlind; over >= 0 {
		next.next = now.Add(min(blindMin<<min(over, 10), blindMax))
	}
	return &next
}

// untold is why the orchestrator cannot be told of a job, for people.
func untold(err error) string { return strings.TrimSuffix(err.Error(), ": "+psg.ErrUnknown.Error()) }

func (b *blind) String() string {
	if b == nil {
		return ""
	}
	text := fmt.Sprintf("; no hint leads Nomad there: %s; stopped for another to start, %d times", b.why, b.stops)
	if !b.next.IsZero() {
		text += ", again at " + b.next.UTC().Format(time.TimeOnly)
	}
	return text
}

// blindness is how the strays of a job fare that cannot be hinted; nil if it can.
func (s *steers) blindness(id psg.JobID) *blind {
	s.mu.Lock()
	defer s.mu.Unlock()
	if job := s.jobs[id]; job != nil {
		return job.blind
	}
	return nil
}

// sees replaces it.
func (s *steers) sees(id psg.JobID, b *blind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if job := s.jobs[id]; job != nil {
		job.blind = b
	}
}

// arrived notes that an allocation of a job that was asked for at a time was granted:
// one that came after the last stop has found its way.
func (s *steers) arrived(id psg.JobID, asked time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if job := s.jobs[id]; job != nil && job.blind != nil && asked.After(job.blind.last) {
		job.blind = nil
	}
}

// versionOf is the version of a job, as its groups have it.
func (c *Controller) versionOf(id psg.JobID) (version uint64) {
	workloads, _ := c.job(id)
	for i := range workloads {
		version = max(version, workloads[i].Version)
	}
	return version
}

// toldBlind adds to why an allocation waits elsewhere that no hint leads it away.
func (c *Controller) toldBlind(refusal psg.Refusal) psg.Refusal {
	if status := c.state.Ask(refusal.Ask); refusal.State == psg.Elsewhere && status.Ask.Alloc != "" {
		refusal.Summary += c.steers.blindness(status.Ask.Workload.JobID()).String()
	}
	return refusal
}
