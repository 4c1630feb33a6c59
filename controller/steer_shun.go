package controller

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/psgrid/psg"
)

const (
	// maxMisses is how often in a row work that was steered to a node may come out
	// elsewhere, such as because Nomad rejects its plans for it, before PSG plans
	// nothing there for a while: shunMin, then twice that, up to shunMax.
	maxMisses = 3
	shunMin   = time.Minute
	shunMax   = 15 * time.Minute
	// missWithin is how long after it was sent work may come to count.
	missWithin = 2 * time.Minute
)

// landing is how well a node takes what is steered to it. Only nodes to which something
// was sent, and on which nothing was granted since, have one.
type landing struct {
	sent   map[psg.JobID]time.Time // jobs of which an instance was stopped lately to start here
	misses int
	shun   time.Duration // of the last time it was shunned
	until  time.Time     // it is shunned
}

// sentTo notes that an instance of a job was stopped so as to start on a node.
func (s *steers) sentTo(job psg.JobID, node psg.NodeID, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.landings[node]
	if known == nil {
		known = &landing{sent: map[psg.JobID]time.Time{}}
		s.landings[node] = known
	}
	maps.DeleteFunc(known.sent, func(_ psg.JobID, at time.Time) bool { return now.Sub(at) > missWithin })
	known.sent[job] = now
}

// missed notes that an instance of a job waits elsewhere than on the node it is
// planned on, and reports whether the node is shunned from now on.
func (s *steers) missed(job psg.JobID, node psg.NodeID, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.landings[node]
	if known == nil {
		return false
	}
	at, sent := known.sent[job]
	delete(known.sent, job)
	if !sent || now.Sub(at) > missWithin {
		return false
	}
	if known.misses++; known.misses < maxMisses {
		return false
	}
	known.misses = 0
	known.shun = min(max(2*known.shun, shunMin), shunMax)
	known.until = now.Add(known.shun)
	return true
}

// landed notes that Nomad has started work on a node.
func (s *steers) landed(node psg.NodeID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.landings, node)
}

// shunned are the nodes where nothing is planned now, and until when.
func (s *steers) shunned(now time.Time) map[psg.NodeID]time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out map[psg.NodeID]time.Time
	for node, l := range s.landings {
		if now.Before(l.until) {
			if out == nil {
				out = map[psg.NodeID]time.Time{}
			}
			out[node] = l.until
		}
	}
	return out
}

// Shunned are the nodes where nothing is planned at a time, and until when,
// because Nomad did not start there what was steered to them.
func (c *Controller) Shunned(now time.Time) map[psg.NodeID]time.Time { return c.steers.shunned(now) }

// avoid adds to rulings that nothing is planned on shunned nodes. An allocation
// that waits on one shows that Nomad does start work there.
func (c *Controller) avoid(rulings map[psg.WorkloadID]*psg.Ruling, asks []psg.Ask, view *psg.Snapshot, now time.Time) {
	shunned := c.steers.shunned(now)
	for _, ask := range asks {
		if _, there := shunned[ask.Node]; there && ask.Alloc != "" {
			c.steers.landed(ask.Node)
			delete(shunned, ask.Node)
		}
	}
	var denials []psg.Denial
	for _, node := range slices.Sorted(maps.Keys(shunned)) {
		if row, known := view.Row(node); known {
			rows := psg.NewBitmap(len(view.Nodes))
			rows.Set(row)
			why := fmt.Sprintf("Nomad did not start there what was steered to it, %d times in a row: not planned on until %s",
				maxMisses, shunned[node].UTC().Format(time.TimeOnly))
			denials = append(denials, psg.Denial{Reason: psg.Reason{Source: "nomad", Text: why}, Rows: rows})
		}
	}
	if len(denials) == 0 {
		return
	}
	for id, ruling := range rulings {
		rulings[id] = denied(ruling, denials)
	}
}

// denied is a ruling that denies more.
func denied(ruling *psg.Ruling, more []psg.Denial) *psg.Ruling {
	out := *ruling
	out.Denials = slices.Concat(ruling.Denials, more)
	if explain := ruling.Explain; explain != nil {
		out.Explain = func(row int) (why, audit []psg.Reason) {
			why, audit = explain(row)
			for _, d := range more {
				if d.Rows.Has(row) {
					why = append(slices.Clip(why), d.Reason)
				}
			}
			return why, audit
		}
	}
	return &out
}
