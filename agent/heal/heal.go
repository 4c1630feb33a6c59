// Package heal decides, on one node, whether somebody whom the agent is to
// protect suffers, who is to blame, and how long that one is held back.
//
// It is pure: readings and charges go in, acts come out, and time is what the
// readings say. It reads no file and holds nobody: package agent does both, for
// as long as the leader's mandate lasts.
//
// The life of an allocation that may yield:
//
//	free ──blamed──▶ on trial ──sufferer well──▶ held ──time over──▶ free
//	                    │                                             │ blamed again soon: held 4 times as long
//	                    └──no better in time──▶ pardoned ──30 s, then 4 times as long──▶ free
//
// Nothing flaps: whatever the readings, in any Span there are at most MaxHolds
// holds on the node.
package heal

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/psgrid/psg"
)

// Resource is what allocations contend for.
type Resource uint8

// The resources.
const (
	CPU    Resource = iota // cores
	Memory                 // MiB
	IO                     // MiB a second

	Resources = int(iota) // how many there are
)

// String is the resource's name in reasons.
func (r Resource) String() string { return [Resources]string{"CPU", "memory", "I/O"}[r] }

// Amounts is an amount of each resource; NaN is not known.
type Amounts [Resources]float64

// Reading is one look at the node.
type Reading struct {
	At       time.Time
	Steal    float64 // share of CPU time that the hypervisor gave to others, in percent
	Pressure Amounts // share of the time in which somebody waited for each, in percent
	Allocs   []Alloc // by ID, each once
}

// Alloc is one allocation of the node.
type Alloc struct {
	ID        psg.AllocID
	Use       Amounts
	Throttled float64         // share of the time in which its own quota held it back, in percent
	Pressure  float64         // its own, of the worst resource, in percent
	Probes    []time.Duration // that ended since the reading before, oldest first
}

// Act is what is to be done now.
type Act struct {
	Alloc psg.AllocID
	Hold  bool            // to its floor; false lets it go
	What  [Resources]bool // of a hold: in which resources
	For   psg.AllocID     // of a hold: who suffers
	Why   string
}

// The bounds of how often an allocation is held. They are the promise that
// nothing flaps.
const (
	Span     = 10 * time.Minute
	MaxHolds = 8 // on the node, in any Span
	maxHeld  = 4 // at once
	maxEach  = 4 // of one allocation, in any Span

	firstHold = 15 * time.Second
	longer    = 4 // times as long, when it is blamed again within Span
	maxHold   = 5 * time.Minute
	trial     = 3 * time.Second  // for a hold to show that it helps; longer for slow probes
	carryOut  = 10 * time.Second // until a hold is in force, at most, before its trial begins
	pardon    = 30 * time.Second // after a hold that did not help; longer each time, as holds are
	absence   = 2 * time.Second  // after which an allocation counts as gone
	calmDown  = 30 * time.Second // that the node stays noisy after all is well
	silence   = 10 * time.Second // after which a mood is of no use; longer for slow probes
)

// Detector is the state of one node. It is for one goroutine.
type Detector struct {
	charges map[psg.AllocID]psg.Charge
	known   map[psg.AllocID]*state
	holds   []time.Time // of the last Span
	at      time.Time   // of the last reading
	noisy   time.Time   // when the node last was
	blame   string
}

// New returns a detector that may hold nobody: it has no mandate.
func New() *Detector { return &Detector{known: map[psg.AllocID]*state{}} }

// Entrust replaces the mandate; none takes it away, and the next Observe lets go
// of everybody.
func (d *Detector) Entrust(charges []psg.Charge) {
	d.charges = make(map[psg.AllocID]psg.Charge, len(charges))
	for _, charge := range charges {
		d.charges[charge.Alloc] = charge
	}
}

// Observe takes in a reading and returns what is to be done, by allocation.
func (d *Detector) Observe(r Reading) []Act {
	passed := time.Duration(0)
	if !d.at.IsZero() && r.At.After(d.at) {
		passed = r.At.Sub(d.at)
	}
	if passed > 0 || d.at.IsZero() { // a clock that was set back stands still
		d.at = r.At
	}
	for i := range r.Allocs {
		d.look(&r.Allocs[i], passed)
	}
	acts := d.release()
	sufferers := d.sufferers()
	if len(sufferers) == 0 && !d.holding() {
		d.learn(passed)
	}
	acts = append(acts, d.judge(sufferers)...)
	if act, found := d.respond(sufferers, &r); found {
		acts = append(acts, act)
	}
	if d.holding() || d.blame != "" {
		d.noisy = d.at
	}
	slices.SortStableFunc(acts, func(a, b Act) int { return cmp.Compare(a.Alloc, b.Alloc) })
	return acts
}

// Done says that a hold is in force since then: its trial begins now, not when it was
// decided, since a busy node may take seconds.
func (d *Detector) Done(id psg.AllocID, at time.Time) {
	if s := d.known[id]; s != nil && s.phase == onTrial && !s.inForce {
		s.inForce, s.until = true, at.Add(s.trial)
	}
}

// Failed says that a hold could not be carried out: it is tried again as late as one
// that did not help.
func (d *Detector) Failed(id psg.AllocID) {
	if s := d.known[id]; s != nil && s.phase == onTrial {
		s.phase, s.until = pardoned, d.at.Add(s.growing(pardon, Span))
	}
}

// Noisy reports whether the node is one to keep away from: somebody suffers by
// others, somebody is held, or either was so lately.
func (d *Detector) Noisy() bool { return !d.noisy.IsZero() && d.at.Sub(d.noisy) < calmDown }

// Urgent reports whether the next reading should be soon: somebody suffers, or a
// hold is on trial.
func (d *Detector) Urgent() bool {
	for _, s := range d.known {
		if s.suffers || s.phase == onTrial {
			return true
		}
	}
	return false
}

// Blame says why who suffers does so, as far as it is not by themselves; empty
// while all are well.
func (d *Detector) Blame() string { return d.blame }

// look folds one allocation's reading into its state.
func (d *Detector) look(a *Alloc, passed time.Duration) {
	s := d.known[a.ID]
	if s == nil {
		s = &state{id: a.ID, recent: Amounts{math.NaN(), math.NaN(), math.NaN()}}
		d.known[a.ID] = s
	}
	s.seen = d.at
	s.measure(a, passed)
	if charge := d.charges[a.ID]; charge.Protected {
		s.feel(a, charge, d.at)
	} else {
		s.suffers, s.moods = false, 0
	}
}

// sufferers are the protected who suffer, by ID.
func (d *Detector) sufferers() []*state {
	var found []*state
	for _, s := range d.sorted() {
		if s.suffers {
			found = append(found, s)
		}
	}
	return found
}

func (d *Detector) sorted() []*state {
	all := make([]*state, 0, len(d.known))
	for _, s := range d.known {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *state) int { return cmp.Compare(a.id, b.id) })
	return all
}

func (d *Detector) holding() bool {
	for _, s := range d.known {
		if s.phase == onTrial || s.phase == held {
			return true
		}
	}
	return false
}

// learn has everybody's usual use follow what they use now: only while all are
// well, so that what harms does not become usual.
func (d *Detector) learn(passed time.Duration) {
	for _, s := range d.known {
		s.learn(passed)
	}
}

// release forgets who is gone, and lets go of those whom it may no longer hold
// or has held for long enough.
func (d *Detector) release() []Act {
	var acts []Act
	for _, s := range d.sorted() {
		holds := s.phase == onTrial || s.phase == held
		switch {
		case d.at.Sub(s.seen) > absence:
			delete(d.known, s.id)
			if holds {
				acts = append(acts, Act{Alloc: s.id, Why: "it is gone"})
			}
		case holds && !d.charges[s.id].Yields:
			s.phase = free
			acts = append(acts, Act{Alloc: s.id, Why: "no mandate to hold it any longer"})
		case s.phase == held && !d.at.Before(s.until):
			s.phase = free
			acts = append(acts, Act{Alloc: s.id, Why: fmt.Sprintf("held for %s", s.hold)})
		case s.phase == pardoned && !d.at.Before(s.until):
			s.phase = free
		}
	}
	return acts
}

// judge ends the trials that have shown something.
func (d *Detector) judge(sufferers []*state) []Act {
	var acts []Act
	for _, s := range d.sorted() {
		if s.phase != onTrial {
			continue
		}
		helped := !slices.ContainsFunc(sufferers, func(of *state) bool { return of.id == s.victim })
		switch {
		case helped && s.inForce:
			s.phase, s.until = held, d.at.Add(s.hold)
		case helped:
			s.phase = free
			acts = append(acts, Act{Alloc: s.id, Why: fmt.Sprintf("%s was well before it was held", s.victim)})
		case !d.at.Before(s.until):
			s.phase, s.until = pardoned, d.at.Add(s.growing(pardon, Span))
			acts = append(acts, Act{Alloc: s.id, Why: fmt.Sprintf("holding it did not help %s", s.victim)})
		}
	}
	return acts
}
