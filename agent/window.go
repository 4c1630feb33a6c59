package agent

import (
	"math"
	"slices"
	"time"

	"github.com/psgrid/psg"
)

// window keeps the values of one metric over a span of time, at most as many as
// it was made for, and knows their exact quantiles. It allocates only when made.
type window struct {
	span   time.Duration
	at     []time.Time // ring of n from head, in the order they came; as is values
	values []float64
	head   int
	n      int
	sorted []float64 // the n values, ascending
}

func newWindow(span time.Duration, samples int) *window {
	return &window{
		span:   span,
		at:     make([]time.Time, samples),
		values: make([]float64, samples),
		sorted: make([]float64, 0, samples),
	}
}

// push adds a value, which must be a number, and forgets those that are too old
// or too many.
func (w *window) push(at time.Time, value float64) {
	for w.n > 0 && (w.n == len(w.values) || at.Sub(w.at[w.head]) >= w.span) {
		w.drop()
	}
	tail := (w.head + w.n) % len(w.values)
	w.at[tail], w.values[tail] = at, value
	w.n++
	i, _ := slices.BinarySearch(w.sorted, value)
	w.sorted = slices.Insert(w.sorted, i, value)
}

func (w *window) drop() {
	i, _ := slices.BinarySearch(w.sorted, w.values[w.head])
	w.sorted = slices.Delete(w.sorted, i, i+1)
	w.head = (w.head + 1) % len(w.values)
	w.n--
}

func (w *window) clear() {
	w.head, w.n, w.sorted = 0, 0, w.sorted[:0]
}

func (w *window) last() float64 { return w.values[(w.head+w.n-1)%len(w.values)] }

// stats summarises the window, which must not be empty.
func (w *window) stats() psg.Stats {
	sum := 0.0
	for _, value := range w.sorted {
		sum += value
	}
	return psg.Stats{
		Last: w.last(),
		Mean: sum / float64(w.n),
		Max:  w.sorted[w.n-1],
		P50:  w.quantile(0.50),
		P95:  w.quantile(0.95),
		P99:  w.quantile(0.99),
	}
}

// quantile is the smallest value that at least the share q of all values does
// not exceed.
func (w *window) quantile(q float64) float64 {
	rank := int(math.Ceil(q * float64(w.n)))
	return w.sorted[max(rank, 1)-1]
}
