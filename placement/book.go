package placement

import (
	"github.com/psgrid/psg"
)

// held is one placement in the book.
type held struct {
	placement  psg.Placement
	workload   *workload
	node       *node // nil while the node is unknown: it then holds nothing
	inWorkload int   // its place in workload.held
	onNode     int   // its place in node.held
	planned    bool  // by the problem in hand: in the book until its end
}

// workload is one task group and its placements. It exists while it is
// registered or holds a placement.
type workload struct {
	id     psg.WorkloadID
	known  bool // registered: spec is meaningful
	spec   psg.Workload
	fault  string // why it can be placed nowhere
	job    *job
	held   []*held
	ahead  int   // of held, those without an allocation: reservations
	limits []int // Config.Limits that cover it, by index
	ports  portPlan
	tally  tally
	shape  *shape  // what of it decides where it fits; nil until asked for
	class  *class  // its candidates under the last ruling; nil until asked for
	ruled  ruledAs // the ruling that class was made under
	cycle  uint64  // in which class was last found to be current
}

// job is what the groups of one job share.
type job struct {
	groups  map[string]*workload
	tallied int // groups whose tally counts anything
}

type jobID struct{ namespace, job string }

// workloadFor finds or makes the entry of a workload.
func (e *Engine) workloadFor(id psg.WorkloadID) *workload {
	if w, ok := e.workloads[id]; ok {
		return w
	}
	jid := jobID{id.Namespace, id.Job}
	j, ok := e.jobs[jid]
	if !ok {
		j = &job{groups: make(map[string]*workload)}
		e.jobs[jid] = j
	}
	w := &workload{id: id, job: j}
	j.groups[id.Group] = w
	e.workloads[id] = w
	return w
}

// forget drops a workload that is neither registered nor holds anything.
func (e *Engine) forget(w *workload) {
	if w.known || len(w.held) > 0 {
		return
	}
	e.release(w)
	delete(e.workloads, w.id)
	delete(w.job.groups, w.id.Group)
	if len(w.job.groups) == 0 {
		delete(e.jobs, jobID{w.id.Namespace, w.id.Job})
	}
}

// enter writes a placement into the book and takes its room.
func (e *Engine) enter(p psg.Placement) *held {
	h := &held{placement: p, workload: e.workloadFor(p.Ask.Workload)}
	e.book(h, e.nodes[p.Node])
	return h
}

// book takes the room of a placement that is not in the book, on its node if
// that is known.
func (e *Engine) book(h *held, n *node) {
	e.held[h.placement.Ask.ID] = h
	h.inWorkload = len(h.workload.held)
	h.workload.held = append(h.workload.held, h)
	if h.placement.Ask.Alloc == "" {
		h.workload.ahead++
	}
	for _, victim := range h.placement.Victims {
		bump(e.claims, victim, 1)
	}
	if n != nil {
		e.attach(h, n)
	} else {
		e.astray(h)
	}
}

// strike takes a placement out of the book and gives its room back.
func (e *Engine) strike(h *held) {
	if h.node != nil {
		e.detach(h)
	} else {
		e.found(h)
	}
	delete(e.held, h.placement.Ask.ID)
	list := h.workload.held
	last := list[len(list)-1]
	list[h.inWorkload], last.inWorkload = last, h.inWorkload
	h.workload.held = list[:len(list)-1]
	if h.placement.Ask.Alloc == "" {
		h.workload.ahead--
	}
	e.unclaim(h)
}

// unclaim lets those go on who were to make way for a placement.
func (e *Engine) unclaim(h *held) {
	for _, victim := range h.placement.Victims {
		bump(e.claims, victim, -1)
	}
}

// attach makes a placement hold its room on a node, in every account.
func (e *Engine) attach(h *held, n *node) {
	h.node, h.onNode = n, len(n.held)
	n.held = append(n.held, h)
	e.account(h, 1)
}

// detach undoes attach.
func (e *Engine) detach(h *held) {
	list := h.node.held
	last := list[len(list)-1]
	list[h.onNode], last.onNode = last, h.onNode
	h.node.held = list[:len(list)-1]
	e.account(h, -1)
	h.node = nil
}

// account adds or removes one placement in everything that is summed over
// placements. It is its own inverse, and independent of order: that is what
// makes an engine equal to one built afresh.
func (e *Engine) account(h *held, sign int) {
	n, w, p := h.node, h.workload, &h.placement
	room := &e.rooms[n.slot]
	if sign > 0 {
		room.take(p.Request)
		n.ports.take(p.Ask.ID, p.Ports, w.ports.dynamic)
	} else {
		room.give(p.Request)
		n.ports.give(p.Ask.ID, p.Ports, w.ports.dynamic)
	}
	n.holdCards(p.Devices, sign)
	for _, i := range w.limits {
		n.limits[i] += sign
		e.limitTotals[i] += sign
	}
	if w.job.tallied > 0 {
		for _, sibling := range w.job.groups {
			sibling.tally.count(n, sibling == w, sign)
		}
	}
	e.touch(n.slot)
}

// bump counts, and forgets what has come to nothing.
func bump[K comparable](counts map[K]int, key K, sign int) {
	if counts[key] += sign; counts[key] == 0 {
		delete(counts, key)
	}
}

// astray remembers a placement whose node is not known (yet).
func (e *Engine) astray(h *held) {
	list := e.strays[h.placement.Node]
	if list == nil {
		list = make(map[psg.RequestID]*held)
		e.strays[h.placement.Node] = list
	}
	list[h.placement.Ask.ID] = h
}

// found undoes astray.
func (e *Engine) found(h *held) {
	list := e.strays[h.placement.Node]
	delete(list, h.placement.Ask.ID)
	if len(list) == 0 {
		delete(e.strays, h.placement.Node)
	}
}
