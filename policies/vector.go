package policies

import (
	"fmt"
	"math"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/psgrid/psg"
)

// vector is the points that one clause of score gives each row, in bit planes:
// a row has 2^i milli-points of plane i. So any number of different points is a
// few bitmaps, whose sums are exact.
type vector struct {
	deps   dependencies
	points *tree
	approx func(row int) approx // of the points; nil for none
	weight int64
	planes [2][planes]psg.Bitmap // above zero, and below
	values []int64
	doubt  psg.Bitmap // rows whose points are none, or too many
	ready  bool
	brought
}

// planes is enough for the most points, in milli-points, times the most weight.
const planes = 50

func (t *table) vector(points *tree, weight int64) *vector {
	key := fmt.Sprintf("%d * %s", weight, points.key)
	n, ok := t.vectors[key]
	if !ok {
		n = &vector{points: points, weight: weight, approx: points.approximation(), deps: dependenciesOf(points)}
		for _, c := range n.deps.columns {
			c.used = append(c.used, n)
		}
		t.vectors[key] = n
	}
	return n
}

func (n *vector) spoil() { n.ready = false }

func (n *vector) ensure(t *table) {
	if n.already(t) {
		return
	}
	if kept := n.deps.ensure(t); kept && n.ready {
		return
	}
	n.ready = true
	n.edits++
	n.planes, n.doubt, n.values = [2][planes]psg.Bitmap{}, nil, make([]int64, t.rows())
	at := &rowCells{}
	for at.row = range t.rows() {
		n.set(at, t.rows())
	}
}

func (n *vector) refresh(t *table, row int) {
	if n.ready {
		n.set(t.cellsOf(row), t.rows())
	}
}

func (n *vector) set(at *rowCells, rows int) {
	milli, ok := int64(0), false
	if n.approx != nil {
		milli, ok = n.approx(at.row).milliPoints(n.weight)
	}
	if !ok {
		v, err := n.points.eval(at)
		milli, ok = milliPoints(v, n.weight)
		ok = ok && err == nil
	}
	if !ok || n.doubt != nil {
		n.edits++
		mark(&n.doubt, at.row, rows, !ok)
	}
	n.write(at.row, rows, milli)
}

// write sets a row's points: only the planes of the bits that differ change.
func (n *vector) write(row, rows int, milli int64) {
	old := n.values[row]
	if old == milli {
		return
	}
	n.edits++
	n.values[row] = milli
	for side, change := range [2][2]int64{{max(old, 0), max(milli, 0)}, {max(-old, 0), max(-milli, 0)}} {
		for i, differ := 0, change[0]^change[1]; differ != 0; i, differ = i+1, differ>>1 {
			if differ&1 != 0 {
				mark(&n.planes[side][i], row, rows, change[1]>>i&1 != 0)
			}
		}
	}
}

// mark puts a row into a bitmap, made when needed, or takes it out.
func mark(rows *psg.Bitmap, row, n int, in bool) {
	switch {
	case in && *rows == nil:
		*rows = psg.NewBitmap(n)
		fallthrough
	case in:
		rows.Set(row)
	case *rows != nil:
		rows.Clear(row)
	}
}

// used is how many planes there are.
func (n *vector) used() int {
	used := 0
	for _, side := range n.planes {
		for _, plane := range side {
			if plane != nil {
				used++
			}
		}
	}
	return used
}

// scorings are what the vector gives to some rows.
func (n *vector) scorings(reason psg.Reason, rows psg.Bitmap) (to []psg.Scoring) {
	used := n.used()
	room := make([]uint64, used*len(rows)) // one allocation for all planes
	to = make([]psg.Scoring, 0, used)
	for side, sign := range [2]int64{-1, 1} {
		for i, plane := range n.planes[1-side] {
			if plane == nil {
				continue
			}
			both := psg.Bitmap(room[:len(rows):len(rows)])
			if intersect(both, plane, rows) {
				room = room[len(rows):]
				to = append(to, psg.Scoring{Reason: reason, Points: sign << i, Rows: both})
			}
		}
	}
	return to
}

// intersect puts the rows of both a and b into to, and reports whether there
// are any.
func intersect(to, a, b psg.Bitmap) bool {
	var any uint64
	a, b = a[:len(to)], b[:len(to)]
	for i := range to {
		to[i] = a[i] & b[i]
		any |= to[i]
	}
	return any != 0
}

// milliPoints are points as they are kept: times the weight, in float64
// arithmetic, rounded to the nearest and halves away from zero. It reports
// false for what is no number, or too large.
func milliPoints(v ast.Value, weight int64) (int64, bool) {
	number, ok := v.(ast.Number)
	if !ok {
		return 0, false
	}
	points, ok := number.Float64()
	if !ok || !(math.Abs(points) <= maxPoints) {
		return 0, false
	}
	return int64(math.Round(points * 1000 * float64(weight))), true
}
