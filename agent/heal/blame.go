package heal

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/psgrid/psg"
)

// When nobody is blamed.
const (
	stolen       = 10   // percent of CPU time: then the hypervisor is to blame
	ownQuota     = 5    // percent of the time: then the sufferer's own quota is
	leastScore   = 0.10 // of a suspect
	leastWaiting = 5    // percent of the time in which somebody waits for a resource
	// unknownWaiting stands in where the kernel does not tell.
	unknownWaiting = 50
)

// leastGrowth is what counts as growth at all: cores, MiB, MiB a second.
var leastGrowth = Amounts{0.2, 32, 4}

// suspect is how much one allocation is to blame.
type suspect struct {
	*state
	score float64
	worst Resource
	what  [Resources]bool
}

// respond looks for somebody to hold: at most one more at a time, and nobody
// while another hold has yet to show whether it helps.
func (d *Detector) respond(sufferers []*state, r *Reading) (Act, bool) {
	d.blame = ""
	if len(sufferers) == 0 {
		return Act{}, false
	}
	all := d.everybody()
	for _, victim := range sufferers {
		why, found := d.blamed(victim, &all, r)
		if why != "" {
			d.blame = fmt.Sprintf("%s suffers: %s", victim.id, why)
		}
		if found == nil || d.onTrial() || !d.mayHold(found.state) {
			continue
		}
		d.arrest(found.state, victim.id)
		return Act{Alloc: found.id, Hold: true, What: found.what, For: victim.id, Why: d.blame}, true
	}
	return Act{}, false
}

func (d *Detector) onTrial() bool {
	for _, s := range d.known {
		if s.phase == onTrial {
			return true
		}
	}
	return false
}

// blamed says why a victim suffers, and who is to be held for it, if anybody.
// No reason at all means that it is the victim's own doing.
func (d *Detector) blamed(victim *state, all *everybody, r *Reading) (why string, found *suspect) {
	switch {
	case r.Steal >= stolen:
		return fmt.Sprintf("the hypervisor takes %.0f %% of the CPU", r.Steal), nil
	case victim.throttled >= ownQuota:
		return "", nil
	}
	worst := suspect{score: leastScore}
	for _, s := range all.sorted {
		if charge := d.charges[s.id]; charge.Yields && !charge.Protected && s.phase == free {
			if sus := d.suspect(s, all, r); sus.score > worst.score {
				worst, found = sus, &worst
			}
		}
	}
	switch {
	case found == nil:
		return "nobody who may yield uses much more than usual", nil
	case victim.grown(int(found.worst), 0) >= found.grown(int(found.worst), d.floor(found.id)[found.worst]):
		return "", nil
	}
	return fmt.Sprintf("%s uses much more than usual: %s", found.id, grew(found)), found
}

// suspect scores one allocation. For each resource: its share of all growth,
// times the share of all use that its growth is, times how much is waited for
// the resource; the worst resource counts.
func (d *Detector) suspect(s *state, all *everybody, r *Reading) suspect {
	out := suspect{state: s}
	floor := d.floor(s.id)
	for i := range Resources {
		growth := s.grown(i, floor[i])
		waiting := r.Pressure[i]
		if !known(waiting) {
			waiting = unknownWaiting
		}
		if growth < leastGrowth[i] || waiting < leastWaiting {
			continue
		}
		out.what[i] = true
		if score := growth / all.grown[i] * growth / all.used[i] * min(waiting, 100) / 100; score > out.score {
			out.score, out.worst = score, Resource(i)
		}
	}
	return out
}

// everybody is all allocations by ID, and how much they have grown and use
// together: the same for each sufferer and each suspect of a reading.
type everybody struct {
	sorted      []*state
	grown, used Amounts
}

func (d *Detector) everybody() everybody {
	all := everybody{sorted: d.sorted()}
	for _, s := range all.sorted { // in order: sums of floats depend on it
		for r, recent := range s.recent {
			if known(recent) {
				all.grown[r] += s.grown(r, 0)
				all.used[r] += recent
			}
		}
	}
	return all
}

// floor is what an allocation is left with. CPU is in cores there as here: the
// agent converts it. Nothing is kept of I/O: Nomad has nobody ask for it.
func (d *Detector) floor(id psg.AllocID) Amounts {
	floor := d.charges[id].Floor
	return Amounts{float64(floor[psg.CPU]) / MilliCores, float64(floor[psg.Memory]), 0}
}

// MilliCores is how many units of a floor's CPU make one core: whoever calls
// Entrust has converted it from the node's MHz.
const MilliCores = 1000

func grew(s *suspect) string {
	var parts []string
	for r, what := range s.what {
		if what {
			parts = append(parts, fmt.Sprintf("%s %.1f for %.1f", Resource(r), s.recent[r], s.usual[r]))
		}
	}
	return strings.Join(parts, ", ")
}

// mayHold holds the promise that nothing flaps.
func (d *Detector) mayHold(s *state) bool {
	old := func(at time.Time) bool { return d.at.Sub(at) >= Span }
	d.holds, s.held = slices.DeleteFunc(d.holds, old), slices.DeleteFunc(s.held, old)
	now := 0
	for _, other := range d.known {
		if other.phase == onTrial || other.phase == held {
			now++
		}
	}
	return len(d.holds) < MaxHolds && len(s.held) < maxEach && now < maxHeld
}

// arrest puts an allocation on trial.
func (d *Detector) arrest(s *state, victim psg.AllocID) {
	s.hold = s.growing(firstHold, maxHold)
	s.trial = trial
	if probe := d.charges[victim].Probe; probe != nil {
		s.trial = max(s.trial, 2*moods*probe.Interval)
	}
	s.phase, s.until, s.victim = onTrial, d.at.Add(carryOut+s.trial), victim
	s.inForce = false // see Done
	s.held, d.holds = append(s.held, d.at), append(d.holds, d.at)
}
