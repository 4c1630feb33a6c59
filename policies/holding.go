package policies

import (
	"cmp"
	"slices"

	"github.com/psgrid/psg"
)

// holding is what holds room in a snapshot, by row.
type holding struct {
	residents [][]resident             // by request ID
	reserved  map[psg.WorkloadID][]int // rows with a reservation of the workload, perhaps several times
}

func holdingOf(snapshot *psg.Snapshot) *holding {
	h := &holding{residents: make([][]resident, len(snapshot.Nodes))}
	rows := make(map[psg.NodeID]int, len(snapshot.Nodes)) // searching for each would take longer
	for row := range snapshot.Nodes {
		rows[snapshot.Nodes[row].ID] = row
	}
	workloads := map[psg.WorkloadID]*psg.Workload{}
	for p := range snapshot.Placements.All() {
		row, ok := rows[p.Node]
		if !ok || !p.State.Holds() {
			continue
		}
		w, found := workloads[p.Ask.Workload]
		if !found {
			w = snapshot.Workload(p.Ask.Workload)
			workloads[p.Ask.Workload] = w
		}
		h.residents[row] = append(h.residents[row], resident{p, w})
	}
	h.reserved = reservedIn(h.residents)
	return h
}

// reservedIn are the rows with a reservation, by workload.
func reservedIn(residents [][]resident) map[psg.WorkloadID][]int {
	reserved := map[psg.WorkloadID][]int{}
	for row, held := range residents {
		for _, r := range held {
			if w := r.placement.Ask.Workload; reservation(r.placement) {
				reserved[w] = append(reserved[w], row)
			}
		}
	}
	return reserved
}

// own has residents point to copies of their workloads, which it returns: those
// made before where they are the same still.
func (h *holding) own(known map[psg.WorkloadID]*psg.Workload) map[psg.WorkloadID]*psg.Workload {
	copies := make(map[psg.WorkloadID]*psg.Workload, len(known))
	for _, residents := range h.residents {
		for i, r := range residents {
			if r.workload == nil {
				continue
			}
			mine, done := copies[r.workload.ID]
			if before, ok := known[r.workload.ID]; !done && ok && before.Version == r.workload.Version && before.Version != 0 {
				mine, done = before, true
			}
			if !done {
				fresh := *r.workload
				mine = &fresh
			}
			copies[r.workload.ID], residents[i].workload = mine, mine
		}
	}
	return copies
}

// hold is what holds room in a snapshot, made from what did in the last where
// that is less to do.
func (v *viewer) hold(snapshot *psg.Snapshot) *holding {
	if h := v.follow(snapshot); h != nil {
		return h
	}
	h := holdingOf(snapshot)
	v.known = h.own(v.known)
	return h
}

// follow is what holds room in a snapshot, by what differs from the last; nil
// where its nodes or workloads are others, or most of it is.
func (v *viewer) follow(snapshot *psg.Snapshot) *holding {
	before := v.snapshot
	if before == nil || !sameIDs(before.Nodes, snapshot.Nodes) || !sameList(before.Workloads, snapshot.Workloads) {
		return nil
	}
	gone, come := snapshot.Placements.Since(before.Placements)
	if len(gone)+len(come) > snapshot.Placements.Len()/2 {
		return nil
	}
	h := &holding{slices.Clone(v.last.holding.residents), v.last.holding.reserved}
	own := map[int]bool{} // rows whose list is not the last one's
	for _, p := range gone {
		v.change(h, snapshot, p, own, func(held []resident, at int) []resident { return slices.Delete(held, at, at+1) })
	}
	for _, p := range come {
		v.change(h, snapshot, p, own, func(held []resident, at int) []resident {
			return slices.Insert(held, at, resident{p, v.workload(snapshot, p.Ask.Workload)})
		})
	}
	if slices.ContainsFunc(gone, reservation) || slices.ContainsFunc(come, reservation) {
		h.reserved = reservedIn(h.residents)
	}
	return h
}

// change has the list of a placement's row changed at its place, if it counts.
func (v *viewer) change(h *holding, snapshot *psg.Snapshot, p *psg.Placement, own map[int]bool, with func([]resident, int) []resident) {
	row, ok := snapshot.Row(p.Node)
	if !ok || !p.State.Holds() {
		return
	}
	if !own[row] {
		own[row] = true
		h.residents[row] = slices.Clone(h.residents[row])
	}
	at, _ := slices.BinarySearchFunc(h.residents[row], p.Ask.ID, func(r resident, id psg.RequestID) int {
		return cmp.Compare(r.placement.Ask.ID, id)
	})
	h.residents[row] = with(h.residents[row], at)
}

// workload is the copy of a workload that documents share, or nil if there is
// none.
func (v *viewer) workload(snapshot *psg.Snapshot, id psg.WorkloadID) *psg.Workload {
	if known := v.known[id]; known != nil {
		return known
	}
	found := snapshot.Workload(id)
	if found == nil {
		return nil
	}
	fresh := *found
	v.known[id] = &fresh
	return &fresh
}

// sameIDs reports whether two lists are of the same nodes, however they are.
func sameIDs(a, b []psg.Node) bool {
	return sameList(a, b) || slices.EqualFunc(a, b, func(a, b psg.Node) bool { return a.ID == b.ID })
}

func sameList[T any](a, b []T) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }
