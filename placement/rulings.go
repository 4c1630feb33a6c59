package placement

import (
	"slices"

	"github.com/psgrid/psg"
)

// rulings remembers what policy's bitmaps say in the engine's own slots.
// Rulings come anew with each cycle; what has the same words as before is the
// same verdict, and keeps its classes.
type rulings struct {
	rows  []psg.NodeID // of the last problem
	slots []int32      // by row: the node's slot, or -1
	byRow []int        // by slot: the node's row, or -1
	nodes uint64       // Engine.arrivals when slots was made
	epoch uint64       // rises when slots changes
	known map[uint64][]*judgement
	kept  int // of known, by the last sweep
}

// judgement is one ruling's content by slot, which does not change.
type judgement struct {
	ruling *psg.Ruling
	epoch  uint64
	hash   uint64
	denied psg.Bitmap // nil where there is no ruling: nothing is denied
	points []int32    // milli-points; nil where nothing scores
	used   uint64     // cycle
}

// ruledAs is the ruling pointer under which a workload was last judged.
type ruledAs struct {
	ruling *psg.Ruling
	epoch  uint64
}

// setRows maps the problem's rows to slots, where they are not the same as in
// the last problem.
func (e *Engine) setRows(rows []psg.NodeID) {
	r := &e.rulings
	if r.epoch > 0 && r.nodes == e.arrivals && (sameSlice(r.rows, rows) || slices.Equal(r.rows, rows)) {
		r.rows = rows
		return
	}
	r.rows = rows
	r.slots = make([]int32, len(rows))
	r.byRow = make([]int, len(e.slots))
	for i := range r.byRow {
		r.byRow[i] = -1
	}
	for i, id := range rows {
		r.slots[i] = -1
		if n, ok := e.nodes[id]; ok {
			r.slots[i], r.byRow[n.slot] = n.slot, i
		}
	}
	r.nodes = e.arrivals
	r.epoch++
	r.known = make(map[uint64][]*judgement)
}

// sameSlice reports whether two slices are one: rows are not changed once they
// have been handed over.
func sameSlice(a, b []psg.NodeID) bool {
	return len(a) == len(b) && len(a) > 0 && &a[0] == &b[0]
}

// judge finds or makes the judgement that a ruling comes to.
func (e *Engine) judge(ruling *psg.Ruling) *judgement {
	r := &e.rulings
	hash := hashRuling(ruling)
	for _, j := range r.known[hash] {
		if sameRuling(j.ruling, ruling) {
			j.ruling, j.used = ruling, e.cycle // the newest explains itself by the newest view
			return j
		}
	}
	j := &judgement{ruling: ruling, epoch: r.epoch, hash: hash, used: e.cycle}
	if ruling != nil {
		j.denied = r.deniedSlots(ruling, len(e.slots))
		j.points = r.pointsBySlot(ruling, len(e.slots))
	}
	r.known[hash] = append(r.known[hash], j)
	return j
}

// deniedSlots includes the slots whose node the ruling has no row for: policy
// was not asked about it.
func (r *rulings) deniedSlots(ruling *psg.Ruling, n int) psg.Bitmap {
	denied := psg.NewBitmap(n)
	for i := range denied {
		denied[i] = ^uint64(0)
	}
	rows := ruling.Denied(max(len(r.slots), longest(ruling)))
	for row, slot := range r.slots {
		if slot >= 0 && !rows.Has(row) {
			denied.Clear(int(slot))
		}
	}
	return denied
}

// mostPoints bounds what policy adds to one node's score, in milli-points
// either way: a million points.
const mostPoints = 1_000_000_000

func (r *rulings) pointsBySlot(ruling *psg.Ruling, n int) []int32 {
	if len(ruling.Scorings) == 0 {
		return nil
	}
	points := make([]int32, n)
	for _, s := range ruling.Scorings {
		add := bounded(s.Points)
		for row := range s.Rows.All() {
			if row < len(r.slots) && r.slots[row] >= 0 {
				at := &points[r.slots[row]]
				*at = int32(bounded(int64(*at) + add))
			}
		}
	}
	return points
}

func bounded(points int64) int64 { return max(-mostPoints, min(mostPoints, points)) }

// longest is the number of rows that the ruling's denials have room for.
func longest(ruling *psg.Ruling) int {
	n := 0
	for _, d := range ruling.Denials {
		n = max(n, 64*len(d.Rows))
	}
	return n
}

func hashRuling(ruling *psg.Ruling) uint64 {
	hash := uint64(14695981039346656037)
	mix := func(word uint64) { hash = (hash ^ word) * 1099511628211; hash ^= hash >> 29 }
	if ruling == nil {
		return hash
	}
	for _, d := range ruling.Denials {
		mix(uint64(len(d.Rows)))
		for _, word := range d.Rows {
			mix(word)
		}
	}
	for _, s := range ruling.Scorings {
		mix(uint64(s.Points))
		for _, word := range s.Rows {
			mix(word)
		}
	}
	return hash
}

// sameRuling compares what bears on the choice of node; reasons and audit do
// not.
func sameRuling(a, b *psg.Ruling) bool {
	if a == b {
		return true
	}
	if a == nil || b == nil {
		return false
	}
	return slices.EqualFunc(a.Denials, b.Denials, func(x, y psg.Denial) bool { return slices.Equal(x.Rows, y.Rows) }) &&
		slices.EqualFunc(a.Scorings, b.Scorings, func(x, y psg.Scoring) bool {
			return x.Points == y.Points && slices.Equal(x.Rows, y.Rows)
		})
}
