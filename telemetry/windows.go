package telemetry

import (
	"cmp"
	"fmt"
	"math"
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
	// usualChanges is how many values of one series in a slot the memory is kept for.
	usualChanges = 128
)

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
	if err := check(&s); err != nil {
		return fmt.Errorf("sample %d of node %q: %w", s.Sequence, s.Node, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.nodes[s.Node]
	switch {
	case n == nil && len(w.nodes) >= maxNodes:
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

// check reports what is wrong with a sample.
func check(s *psg.Sample) error {
	switch {
	case s.Node == "":
		return fmt.Errorf("no node: %w", psg.ErrInvalid)
	case s.Sequence == 0 || s.Sequence >= math.MaxUint32:
		return fmt.Errorf("sequence: %w", psg.ErrInvalid)
	case s.At.IsZero():
		return fmt.Errorf("no time: %w", psg.ErrInvalid)
	case max(len(s.Declared), len(s.Values), len(s.Uses), len(s.Forecasts), len(s.Gone)) > maxSeries:
		return fmt.Errorf("more than %d series: %w", maxSeries, psg.ErrInvalid)
	case len(s.Slots) > keptSlots:
		return fmt.Errorf("%d slots, of which %d are kept: %w", len(s.Slots), keptSlots, psg.ErrInvalid)
	}
	for _, d := range s.Declared {
		if d.ID == 0 || d.Scale == 0 || d.Metric == "" || len(d.Metric) > maxName || len(d.Alloc) > maxName {
			return fmt.Errorf("declared series %d is %q of %q in units of 1/%d: %w", d.ID, d.Metric, d.Alloc, d.Scale, psg.ErrInvalid)
		}
	}
	for _, v := range s.Values {
		if v.Units > maxUnits || v.Units < -maxUnits {
			return fmt.Errorf("series %d is %d units: %w", v.Series, v.Units, psg.ErrInvalid)
		}
	}
	for _, u := range s.Uses {
		if most, least := max(u.Mean, u.Max, u.P95), min(u.Mean, u.Max, u.P95); most > maxUnits || least < -maxUnits {
			return fmt.Errorf("use of series %d is %d..%d units: %w", u.Series, least, most, psg.ErrInvalid)
		}
	}
	for _, f := range s.Forecasts {
		if min(f.Mean, f.Upper) < 0 || max(f.Mean, f.Upper) > psg.MaxQuantity {
			return fmt.Errorf("forecast of series %d is %d to %d: %w", f.Series, f.Mean, f.Upper, psg.ErrInvalid)
		}
	}
	return checkSlots(s)
}

func checkSlots(s *psg.Sample) error {
	open := floor(s.At)
	for _, slot := range s.Slots {
		switch {
		case slot.Number >= open:
			return fmt.Errorf("slot %d is not over in slot %d: %w", slot.Number, open, psg.ErrInvalid)
		case len(slot.Data) > maxSlotSize:
			return fmt.Errorf("slot %d has %d bytes: %w", slot.Number, len(slot.Data), psg.ErrInvalid)
		}
		if err := checkSlot(slot.Data); err != nil {
			return fmt.Errorf("slot %d: %w", slot.Number, err)
		}
	}
	return nil
}
