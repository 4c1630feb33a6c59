package psg

import (
	"iter"
	"math/bits"
)

// Bitmap is a set of rows, 64 to a word. Rows beyond its length are not in it.
type Bitmap []uint64

// NewBitmap returns an empty set with room for rows 0 to n-1.
func NewBitmap(n int) Bitmap { return make(Bitmap, (n+63)/64) }

// Set adds a row, which must be within the room NewBitmap made.
func (b Bitmap) Set(row int) { b[row>>6] |= 1 << (row & 63) }

// Clear removes a row.
func (b Bitmap) Clear(row int) {
	if row>>6 < len(b) {
		b[row>>6] &^= 1 << (row & 63)
	}
}

// Has reports whether a row is in the set.
func (b Bitmap) Has(row int) bool { return row>>6 < len(b) && b[row>>6]&(1<<(row&63)) != 0 }

// Count returns how many rows are in the set.
func (b Bitmap) Count() int {
	n := 0
	for _, word := range b {
		n += bits.OnesCount64(word)
	}
	return n
}

// Or adds every row of other; other must not be longer.
func (b Bitmap) Or(other Bitmap) {
	for i, word := range other {
		b[i] |= word
	}
}

// All yields the rows in ascending order.
func (b Bitmap) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, word := range b {
			for ; word != 0; word &= word - 1 {
				if !yield(i<<6 + bits.TrailingZeros64(word)) {
					return
				}
			}
		}
	}
}
