package policies

import (
	"math"

	"github.com/open-policy-agent/opa/v1/ast"
)

// approx is a number to within a bound, in float64 arithmetic: OPA's is of
// decimal texts, and slow. It decides what lies outside of the bound; what does
// not is evaluated as OPA does. A NaN decides nothing.
type approx struct{ value, within float64 }

// rounding bounds the relative error of one float64 operation, and of reading
// a decimal text as a float64, together with OPA's own rounding; underflow what
// is lost besides where that is less than the least float64.
const (
	rounding  = 1.0 / (1 << 51)
	underflow = 4 * math.SmallestNonzeroFloat64
)

// rounded is a float64 that the last operation, or reading, has given.
func rounded(f, within float64) approx { return approx{f, within + math.Abs(f)*rounding + underflow} }

func approximate(f float64) approx { return rounded(f, 0) }

func (a approx) plus(b approx) approx { return rounded(a.value+b.value, a.within+b.within) }

func (a approx) minus(b approx) approx { return a.plus(approx{-b.value, b.within}) }

func (a approx) times(b approx) approx {
	return rounded(a.value*b.value, math.Abs(a.value)*b.within+math.Abs(b.value)*a.within+a.within*b.within)
}

// compare is how two numbers compare; false when they are too close to say.
func (a approx) compare(b approx) (int, bool) {
	difference := a.value - b.value
	margin := a.within + b.within + math.Abs(difference)*rounding
	switch {
	case difference > margin:
		return 1, true
	case difference < -margin:
		return -1, true
	}
	return 0, false // a NaN too
}

// milliPoints are points as milliPoints gives them; false when it is too close
// to say.
func (a approx) milliPoints(weight int64) (int64, bool) {
	if !(math.Abs(a.value)+a.within < maxPoints) {
		return 0, false
	}
	scale := 1000 * float64(weight)
	milli := a.value * scale
	margin := a.within*scale + math.Abs(milli)*2*rounding
	rounded := math.Round(milli)
	if !(math.Abs(milli-rounded)+margin < 0.5) {
		return 0, false
	}
	return int64(rounded), true
}

// approximation is how to approximate a tree on a row of the table, nil for
// none.
func (t *tree) approximation() func(row int) approx {
	switch {
	case t.approx != nil:
		return t.approx
	case t.column != nil:
		c := t.column
		return func(row int) approx { return approximate(c.floats[row]) }
	}
	if number, ok := t.fixed.(ast.Number); ok {
		if f, ok := number.Float64(); ok {
			fixed := approximate(f)
			return func(int) approx { return fixed }
		}
	}
	return nil
}

// approximateCall is how to approximate what a builtin gives for some
// arguments, nil for none.
func approximateCall(name string, args []*tree) func(row int) approx {
	var apply func(a, b approx) approx
	switch name {
	case "plus":
		apply = approx.plus
	case "minus":
		apply = approx.minus
	case "mul":
		apply = approx.times
	default:
		return nil
	}
	x, y := args[0].approximation(), args[1].approximation()
	if x == nil || y == nil {
		return nil
	}
	return func(row int) approx { return apply(x(row), y(row)) }
}
