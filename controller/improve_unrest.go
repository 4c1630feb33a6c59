package controller

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/psgrid/psg"
)

const (
	// stayMin is how long what an idle look has moved stays where it came to. That
	// doubles, up to stayMax, each time an instance of its group leaves again where
	// one came to shortly before: scores may change with where the instance is.
	stayMin = 10 * time.Minute
	stayMax = 24 * time.Hour
	// vainMin is how long a group is not moved of which a move was found and could not
	// begin; it doubles up to vainMax until one does. Others' moves are found instead.
	vainMin = 10 * time.Second
	vainMax = time.Hour
)

// unrest is what keeps idle looks from moving the same to and fro, and from finding
// again and again what cannot be done. It has one entry for each group that was moved,
// or could not be, of late, and it is this controller's own: the next leader begins
// with none.
type unrest struct {
	mu     sync.Mutex
	groups map[psg.WorkloadID]*restless
}

type restless struct {
	came  map[psg.NodeID]time.Time // when one came to a node last
	stays time.Duration            // how long each stays there
	vain  time.Duration
	until time.Time // none moves
}

func newUnrest() *unrest { return &unrest{groups: map[psg.WorkloadID]*restless{}} }

// group is the entry of a workload; mu must be held.
func (u *unrest) group(id psg.WorkloadID) *restless {
	known := u.groups[id]
	if known == nil {
		known = &restless{came: map[psg.NodeID]time.Time{}, stays: stayMin}
		u.groups[id] = known
	}
	return known
}

// moved notes that an instance of a workload goes from one node to another.
func (u *unrest) moved(id psg.WorkloadID, from, to psg.NodeID, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	known := u.group(id)
	known.forget(now)
	if _, again := known.came[from]; again {
		known.stays = min(2*known.stays, stayMax)
	}
	known.came[to] = now
	known.vain, known.until = 0, time.Time{}
}

// inVain notes that a move of a workload was found and could not begin.
func (u *unrest) inVain(id psg.WorkloadID, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	known := u.group(id)
	known.vain = min(max(2*known.vain, vainMin), vainMax)
	known.until = now.Add(known.vain)
}

// begun notes which of some moves have an order, and of which groups none has.
func (u *unrest) begun(moves []wantedMove, orders []psg.Order, now time.Time) {
	noted := map[psg.WorkloadID]bool{}
	for i := range moves {
		source := &moves[i].source.Ask
		if at := slices.IndexFunc(orders, func(o psg.Order) bool { return o.Ask == source.ID }); at >= 0 {
			u.moved(source.Workload, moves[i].from(), orders[at].Node, now)
			noted[source.Workload] = true
		}
	}
	for i := range moves {
		if id := moves[i].source.Ask.Workload; !noted[id] {
			u.inVain(id, now)
			noted[id] = true
		}
	}
}

// forget forgets who came so long ago that, if it left, it would not be for having
// come.
func (r *restless) forget(now time.Time) {
	maps.DeleteFunc(r.came, func(_ psg.NodeID, at time.Time) bool { return now.Sub(at) > 2*r.stays })
	if len(r.came) == 0 {
		r.stays = stayMin
	}
}

// still are the workloads of which no instance is to move now, and the nodes where
// those of others stay.
func (u *unrest) still(now time.Time) (all map[psg.WorkloadID]bool, on map[psg.WorkloadID][]psg.NodeID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	all, on = map[psg.WorkloadID]bool{}, map[psg.WorkloadID][]psg.NodeID{}
	for id, known := range u.groups {
		known.forget(now)
		if known.until.After(now) {
			all[id] = true
		} else if len(known.came) == 0 && now.Sub(known.until) > vainMax {
			delete(u.groups, id)
		}
		for node, at := range known.came {
			if now.Sub(at) < known.stays {
				on[id] = append(on[id], node)
			}
		}
	}
	return all, on
}

// unmovable are the groups of which an idle look moves no instance now, and the
// placements of others that it leaves where they are. What of them may be down is
// counted roughly: that it may be is seen to before anything begins.
func (c *Controller) unmovable(view *psg.Snapshot, now time.Time) (groups map[psg.WorkloadID]bool, instances map[psg.RequestID]bool) {
	unmoved := c.steers.unmoved(now)
	groups, on := c.unrest.still(now)
	instances = map[psg.RequestID]bool{}
	running := make(map[psg.WorkloadID]int, len(view.Workloads))
	for p := range view.Placements.All() {
		if p.State == psg.Running {
			running[p.Ask.Workload]++
		}
		if p.State != psg.Running || slices.Contains(on[p.Ask.Workload], p.Node) {
			instances[p.Ask.ID] = true
		}
	}
	for i := range view.Workloads {
		w := &view.Workloads[i]
		spares := allowedDown(w) > 0 && running[w.ID]-1 >= w.Count-allowedDown(w)
		if running[w.ID] == 0 || unmoved[w.ID.JobID()] || !startsByAsking(w) || !spares && !startsFirst(w) {
			groups[w.ID] = true
		}
	}
	return groups, instances
}

// unmoved are the jobs of which no instance may move now: one is on its way, or
// the last one's move was given up a while ago.
func (s *steers) unmoved(now time.Time) map[psg.JobID]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	jobs := map[psg.JobID]bool{}
	for id := range s.shifts {
		jobs[id] = true
	}
	for id, job := range s.jobs {
		if job.still.After(now) {
			jobs[id] = true
		}
	}
	return jobs
}
