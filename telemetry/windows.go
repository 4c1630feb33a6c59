package telemetry

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/psgrid/psg"
)

// The bounds of what a node may say: no agent can fill a reader's memory.
const (
	maxNodes    = 50_000
	maxSeries   = 16_384 // of one node, allocations' included
	maxSlotSize = 256 << 10
	maxKinds    = 4096    // names that nodes share; further ones are kept by each node
	maxName     = 256     // bytes of a metric's name or an allocation's ID
	maxHeard    = 1 << 18 // values of a node's own series that are kept in one slot
	maxDevices  = 1024    // of one node: cards that are cut in parts are many
	maxFacts    = 64      // attributes, or profiles, of one device
	// usualChanges is how many values of one series in a slot the memory is kept for.
	usualChanges = 128
)

// maxAhead is by how much a node's clock may be ahead of the reader's: what is
// dated later would keep all that follows it out of the windows until then.
const maxAhead = 5 * time.Minute

// silentAfter is how long a session must have been silent before one that began
// earlier, by a clock that was set back, takes its place.
const silentAfter = 30 * time.Second

// Windows is what readers know of all nodes: it folds their samples and says
// what they come to. It may be used from several goroutines.
type Windows struct {
	mu      sync.Mutex
	nodes   map[psg.NodeID]*node
	changed map[psg.NodeID]*node // since they were last taken
	kinds   map[kind]*kind       // the same ones for all nodes
	desk    *desk
	refused uint64 // samples
}

// kind is what series of several nodes have in common.
type kind struct {
	metric string
	scale  uint32
}

// NewWindows returns windows of no node.
func NewWindows() *Windows {
	return &Windows{
		nodes:   map[psg.NodeID]*node{},
		changed: map[psg.NodeID]*node{},
		kinds:   map[kind]*kind{},
		desk:    newDesk(),
	}
}

// Fold takes in a sample that arrived at a moment of the reader's clock. One
// that was folded before, or that says nothing new, changes nothing. An error
// says that a sample makes no sense: nothing of it was folded.
func (w *Windows) Fold(s psg.Sample, arrived time.Time) error {
	err := check(&s, arrived)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.refused++
		return fmt.Errorf("sample %d of node %q: %w", s.Sequence, s.Node, err)
	}
	n := w.nodes[s.Node]
	switch {
	case n == nil && len(w.nodes) >= maxNodes:
		w.refused++
		return fmt.Errorf("sample of node %q: %d nodes are known already: %w", s.Node, maxNodes, psg.ErrBusy)
	case n == nil || n.session < s.Session || n.session > s.Session && arrived.Sub(n.arrived) > silentAfter:
		n = newNode(s.Session)
		w.nodes[s.Node] = n
	case n.session > s.Session:
		return nil
	}
	n.arrived, n.silent = arrived, false
	n.fold(&s, w.kindOf, w.desk.merge.sizes)
	w.changed[s.Node] = n
	return nil
}

// Refused is how many samples Fold has refused.
func (w *Windows) Refused() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.refused
}

// Take returns what is now known of each node that has said something since the
// last Take, by ID.
func (w *Windows) Take() []psg.NodeObserved {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]psg.NodeObserved, 0, len(w.changed))
	for id, n := range w.changed {
		if n.known() {
			out = append(out, n.observed(id, w.desk))
		}
	}
	clear(w.changed)
	slices.SortFunc(out, func(a, b psg.NodeObserved) int { return cmp.Compare(a.Node, b.Node) })
	return out
}

// Observed returns what is now known of a node, if anything is.
func (w *Windows) Observed(id psg.NodeID) (psg.NodeObserved, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.nodes[id]
	if n == nil || !n.known() {
		return psg.NodeObserved{}, false
	}
	return n.observed(id, w.desk), true
}

// Silent returns, by ID, each node that has said nothing since a moment of the
// reader's clock, until it speaks again once: of what it said last only the time
// is left, as the rest tells of it no more.
func (w *Windows) Silent(since time.Time) []psg.NodeObserved {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []psg.NodeObserved
	for id, n := range w.nodes {
		if n.known() && !n.silent && n.arrived.Before(since) {
			n.silent = true
			out = append(out, psg.NodeObserved{Node: id, Telemetry: psg.Telemetry{At: n.at, Metrics: map[string]psg.Stats{}}})
		}
	}
	slices.SortFunc(out, func(a, b psg.NodeObserved) int { return cmp.Compare(a.Node, b.Node) })
	return out
}

// ForgetSilent forgets the nodes that have said nothing since a moment of the
// reader's clock.
func (w *Windows) ForgetSilent(since time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, n := range w.nodes {
		if n.arrived.Before(since) {
			delete(w.nodes, id)
			delete(w.changed, id)
		}
	}
}

func (w *Windows) kindOf(d psg.Declared) *kind {
	k := kind{d.Metric, d.Scale}
	known := w.kinds[k]
	if known == nil {
		known = &k
		if len(w.kinds) < maxKinds {
			w.kinds[k] = known
		}
	}
	return known
}
