package placement

import (
	"cmp"
	"maps"
	"reflect"
	"slices"

	"github.com/psgrid/psg"
)

// Engine is the cluster as placement sees it: nodes, workloads, what each
// placement holds, and for each class of workloads in use its candidates in
// order. It belongs to one goroutine.
type Engine struct {
	cfg Config

	nodes map[psg.NodeID]*node
	slots []*node  // by slot; nil where a node went
	rooms []room   // by slot
	specs []uint32 // by slot: rises with each change of the node there, or of which node is there
	spare []int32  // slots to use again
	ranks []int32  // by slot: the node's position among all by ID
	stale bool     // ranks no longer match nodes

	arrivals uint64 // nodes that came or went
	respecs  uint64 // nodes that came, went or changed

	workloads   map[psg.WorkloadID]*workload
	jobs        map[jobID]*job
	gangs       map[psg.GangID]map[psg.WorkloadID]*workload
	held        map[psg.RequestID]*held
	claims      map[psg.RequestID]int                  // placements that make way, and for how many
	strays      map[psg.NodeID]map[psg.RequestID]*held // placements on nodes not known
	limitTotals []int
	demands     demands

	worths  []int64  // by slot: Engine.worth as the node stands; -1 where not known
	marks   []uint64 // by slot: the sweep that last rated it
	sweep   uint64
	trial   bool    // changes are taken back at once: see solver.fitsWithout
	changes changes // slots that changed, for the classes to catch up with
	shapes  map[string]*shape
	filters map[string]*filter
	indexed int // classes whose candidates are kept in order
	rulings rulings
	cycle   uint64  // of Solve, for what has not been used lately
	open    *solver // of a Trial that has not ended: the book holds what it placed
	swept   uint64  // cycle in which that was dropped last
}

// New returns an engine that knows of nothing. The config must be valid.
func New(cfg Config) *Engine {
	cfg = cfg.withDefaults()
	return &Engine{
		cfg:         cfg,
		nodes:       make(map[psg.NodeID]*node),
		workloads:   make(map[psg.WorkloadID]*workload),
		jobs:        make(map[jobID]*job),
		gangs:       make(map[psg.GangID]map[psg.WorkloadID]*workload),
		held:        make(map[psg.RequestID]*held),
		claims:      make(map[psg.RequestID]int),
		strays:      make(map[psg.NodeID]map[psg.RequestID]*held),
		limitTotals: make([]int, len(cfg.Limits)),
		demands:     demands{counts: make(map[demandKey]*demandCount)},
		shapes:      make(map[string]*shape),
		filters:     make(map[string]*filter),
	}
}

// Apply takes in one change. It is idempotent, and ignores deltas that do not
// bear on placement. It ends a Trial.
func (e *Engine) Apply(d psg.Delta) {
	e.endTrial()
	switch d := d.(type) {
	case psg.NodeChanged:
		e.nodeChanged(d.Node)
	case psg.NodeGone:
		e.nodeGone(d.Node)
	case psg.NodeObserved:
		e.nodeObserved(d)
	case psg.WorkloadChanged:
		e.workloadChanged(d.Workload)
	case psg.WorkloadGone:
		e.workloadGone(d.Workload)
	case psg.Placed:
		e.placed(d.Placement)
	case psg.Moved:
		e.moved(d)
	case psg.Freed:
		e.freed(d.Ask)
	case psg.Refused:
		e.freed(d.Refusal.Ask) // it waited for others to make way, and no longer does
	}
}

func (e *Engine) nodeChanged(spec psg.Node) {
	n, ok := e.nodes[spec.ID]
	if !ok {
		n = e.addNode(spec)
	} else {
		if spec.Telemetry == nil {
			spec.Telemetry, spec.Projection = n.spec.Telemetry, n.spec.Projection // a change does not unsee what was measured
		}
		if sameButVersion(&n.spec, &spec) {
			n.spec.Version = spec.Version
			return
		}
	}
	holding := slices.Clone(n.held)
	for _, h := range holding {
		e.detach(h)
	}
	n.reset(spec, len(e.cfg.Limits))
	e.rooms[n.slot] = emptyRoom(&n.spec)
	e.specs[n.slot]++
	e.respecs++
	for _, h := range holding {
		e.attach(h, n)
	}
	for _, h := range e.strays[spec.ID] {
		e.attach(h, n)
	}
	delete(e.strays, spec.ID)
	e.touch(n.slot)
}

func sameButVersion(a, b *psg.Node) bool {
	c := *a
	c.Version = b.Version
	return reflect.DeepEqual(&c, b)
}

func (e *Engine) addNode(spec psg.Node) *node {
	n := &node{spec: spec}
	if last := len(e.spare) - 1; last >= 0 {
		n.slot, e.spare = e.spare[last], e.spare[:last]
		e.slots[n.slot] = n
	} else {
		n.slot = int32(len(e.slots))
		e.slots = append(e.slots, n)
		e.rooms = append(e.rooms, room{})
		e.specs = append(e.specs, 0)
		e.marks = append(e.marks, 0)
		e.worths = append(e.worths, -1)
	}
	e.nodes[spec.ID] = n
	e.stale = true
	e.arrivals++
	return n
}

// nodeGone drops a node and everything on it.
func (e *Engine) nodeGone(id psg.NodeID) {
	for _, h := range e.strays[id] {
		e.strike(h)
		e.forget(h.workload)
	}
	n, ok := e.nodes[id]
	if !ok {
		return
	}
	for _, h := range slices.Clone(n.held) {
		e.strike(h)
		e.forget(h.workload)
	}
	delete(e.nodes, id)
	e.slots[n.slot] = nil
	e.specs[n.slot]++
	e.arrivals++
	e.respecs++
	e.spare = append(e.spare, n.slot)
	e.stale = true
	e.touch(n.slot)
}

func (e *Engine) nodeObserved(seen psg.NodeObserved) {
	n, ok := e.nodes[seen.Node]
	if !ok {
		return
	}
	n.spec.Telemetry, n.spec.Projection = &seen.Telemetry, seen.Projection
	if e.rooms[n.slot].observe(&n.spec) {
		e.touch(n.slot)
	}
}

func (e *Engine) workloadChanged(spec psg.Workload) {
	w := e.workloadFor(spec.ID)
	e.redefine(w, func() {
		e.leaveGang(w)
		e.demand(w, -1)
		w.known, w.spec = true, spec
		w.fault = senseless(&w.spec)
		w.ports = planPorts(w.spec.Ports)
		w.limits = e.limitsOn(&w.spec)
		w.setTally(newTally(&w.spec))
		e.joinGang(w)
		e.demand(w, 1)
	})
}

func (e *Engine) workloadGone(id psg.WorkloadID) {
	w, ok := e.workloads[id]
	if !ok {
		return
	}
	e.redefine(w, func() {
		e.leaveGang(w)
		e.demand(w, -1)
		w.known, w.spec, w.fault = false, psg.Workload{ID: id}, ""
		w.ports, w.limits = portPlan{}, nil
		w.setTally(tally{})
	})
	e.forget(w)
}

// redefine changes a workload while none of its job's placements is accounted,
// because ports, limits and tallies are accounted by its definition.
func (e *Engine) redefine(w *workload, change func()) {
	e.release(w)
	var holding []*held
	for _, sibling := range w.job.groups {
		for _, h := range sibling.held {
			if h.node != nil {
				holding = append(holding, h)
			}
		}
	}
	for _, h := range holding {
		e.account(h, -1)
	}
	change()
	for _, h := range holding {
		e.account(h, 1)
	}
}

func (e *Engine) placed(p psg.Placement) {
	if h, ok := e.held[p.Ask.ID]; ok {
		e.strike(h)
		defer e.forget(h.workload)
	}
	if p.State.Holds() {
		e.enter(p)
	}
}

func (e *Engine) moved(d psg.Moved) {
	h, ok := e.held[d.Ask]
	if !ok {
		return
	}
	if !d.State.Holds() {
		e.freed(d.Ask)
		return
	}
	if h.placement.Waits() {
		if d.State != psg.Running {
			return // until the others have made way
		}
		e.unclaim(h)
		h.placement.Victims = nil
	}
	if h.placement.State != psg.Moving || d.State != psg.Ending {
		h.placement.Since = d.At
	}
	h.placement.State = d.State
}

func (e *Engine) freed(id psg.RequestID) {
	if h, ok := e.held[id]; ok {
		e.strike(h)
		e.forget(h.workload)
	}
}

// rerank numbers the nodes by ID, so that ties break by ID wherever a node's
// slot happens to be.
func (e *Engine) rerank() {
	if !e.stale {
		return
	}
	order := slices.SortedFunc(maps.Values(e.nodes), func(a, b *node) int { return cmp.Compare(a.spec.ID, b.spec.ID) })
	e.ranks = slices.Grow(e.ranks[:0], len(e.slots))[:len(e.slots)]
	for i, n := range order {
		e.ranks[n.slot] = int32(i)
	}
	e.stale = false
}

// byRank lists the nodes by ID; ranks must be current.
func (e *Engine) byRank() []*node {
	list := make([]*node, len(e.nodes))
	for _, n := range e.nodes {
		list[e.ranks[n.slot]] = n
	}
	return list
}
