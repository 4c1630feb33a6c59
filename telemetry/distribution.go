package telemetry

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/DataDog/sketches-go/ddsketch/mapping"

	"github.com/psgrid/psg"
)

// accuracy is the sketches' relative accuracy.
const accuracy = 0.01

// maxBins is one more than the largest index that a bin can have: that of
// maxUnits is 1732.
const maxBins = 2048

// maxCount bounds the values of one series in one slot: 10 s of one every 10 ms,
// and to spare.
const maxCount = 4096

// bin counts values of about one size.
type bin struct{ index, count uint32 }

// distribution is what one series was like in one slot. Without bins and zeros
// all its values were max.
type distribution struct {
	series   psg.SeriesID
	count    uint32
	max, sum int64
	zeros    uint32
	above    []bin // values above zero, ascending by index; as is below
	below    []bin // values below zero, by their magnitude
}

func (d *distribution) steady() bool { return d.zeros == 0 && len(d.above) == 0 && len(d.below) == 0 }

// run is a value that was put several times on end.
type run struct {
	units int64
	count uint32
}

// summarize makes the distribution of runs, of which there must be one. It
// reorders them, and keeps the memory that d has.
func (d *distribution) summarize(m mapping.IndexMapping, series psg.SeriesID, runs []run) {
	*d = distribution{series: series, max: runs[0].units, above: d.above[:0], below: d.below[:0]}
	for _, r := range runs {
		d.count += r.count
		d.sum += r.units * int64(r.count)
		d.max = max(d.max, r.units)
	}
	if len(runs) == 1 {
		return
	}
	slices.SortFunc(runs, func(a, b run) int { return cmp.Compare(a.units, b.units) })
	for _, r := range slices.Backward(runs) {
		if r.units < 0 {
			d.below = count(d.below, m.Index(float64(-r.units)), r.count)
		}
	}
	for _, r := range runs {
		if r.units == 0 {
			d.zeros += r.count
		} else if r.units > 0 {
			d.above = count(d.above, m.Index(float64(r.units)), r.count)
		}
	}
}

// count adds to the last bin or to one after it.
func count(bins []bin, index int, n uint32) []bin {
	if last := len(bins) - 1; last >= 0 && bins[last].index == uint32(index) {
		bins[last].count += n
		return bins
	}
	return append(bins, bin{uint32(index), n})
}

// append encodes the distribution after that of the series before. All numbers
// are varints, signed ones zigzag:
//
//	series, less the one before    count*2, +1 unless steady    max
//	unless steady: sum, zeros, and above and below, each:
//	    how many bins; for each: index, less the one before    count
func (d *distribution) append(data []byte, before psg.SeriesID) []byte {
	data = binary.AppendUvarint(data, uint64(d.series-before))
	if d.steady() {
		data = binary.AppendUvarint(data, uint64(d.count)*2)
		return binary.AppendVarint(data, d.max)
	}
	data = binary.AppendUvarint(data, uint64(d.count)*2+1)
	data = binary.AppendVarint(data, d.max)
	data = binary.AppendVarint(data, d.sum)
	data = binary.AppendUvarint(data, uint64(d.zeros))
	for _, bins := range [...][]bin{d.above, d.below} {
		data = binary.AppendUvarint(data, uint64(len(bins)))
		index := uint32(0)
		for _, b := range bins {
			data = binary.AppendUvarint(data, uint64(b.index-index))
			data = binary.AppendUvarint(data, uint64(b.count))
			index = b.index
		}
	}
	return data
}

// cursor walks the distributions of a slot.
type cursor struct {
	data []byte
	at   distribution // the current one; its memory is used again by the next
	err  error
}

var errSlot = errors.New("a slot's bytes make no sense")

// next moves to the following distribution, if there is one.
func (c *cursor) next() bool {
	if c.err != nil || len(c.data) == 0 {
		return false
	}
	first := c.at.count == 0
	step := c.uvarint(1 << 32)
	if step == 0 && !first || uint64(c.at.series)+step > 1<<32-1 {
		c.fail("series %d is followed by one %d after it", c.at.series, step)
		return false
	}
	head := c.uvarint(2*maxCount + 1)
	c.at = distribution{
		series: c.at.series + psg.SeriesID(step), count: uint32(head / 2), max: c.varint(maxUnits),
		above: c.at.above[:0], below: c.at.below[:0],
	}
	c.at.sum = c.at.max * int64(c.at.count)
	if head%2 == 1 {
		c.varied()
	}
	if c.at.count == 0 {
		c.fail("series %d has no values", c.at.series)
	}
	return c.err == nil
}

// varied reads what a series that is not steady has besides.
func (c *cursor) varied() {
	c.at.sum = c.varint(maxUnits * maxCount)
	c.at.zeros = uint32(c.uvarint(maxCount))
	c.at.above = c.bins(c.at.above)
	c.at.below = c.bins(c.at.below)
	total := c.at.zeros
	for _, bins := range [...][]bin{c.at.above, c.at.below} {
		for _, b := range bins {
			total += b.count
		}
	}
	if total != c.at.count {
		c.fail("series %d has %d values in its bins and %d in all", c.at.series, total, c.at.count)
	}
}

func (c *cursor) bins(into []bin) []bin {
	index := uint64(0)
	for n := c.uvarint(maxBins); n > 0 && c.err == nil; n-- {
		step := c.uvarint(maxBins)
		if index += step; index >= maxBins || step == 0 && len(into) > 0 {
			c.fail("series %d: bin %d is out of order or range", c.at.series, index)
			return into
		}
		into = append(into, bin{uint32(index), uint32(c.uvarint(maxCount))})
	}
	return into
}

func (c *cursor) uvarint(limit uint64) uint64 {
	v, n := binary.Uvarint(c.data)
	if n <= 0 || v > limit {
		c.fail("a number is cut off or above %d", limit)
		return 0
	}
	c.data = c.data[n:]
	return v
}

func (c *cursor) varint(limit int64) int64 {
	v, n := binary.Varint(c.data)
	if n <= 0 || v > limit || v < -limit {
		c.fail("a number is cut off or beyond %d", limit)
		return 0
	}
	c.data = c.data[n:]
	return v
}

func (c *cursor) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: %w: %s", psg.ErrInvalid, errSlot, fmt.Sprintf(format, args...))
	}
	c.data = nil
}

// checkSlot reports what is wrong with a slot's bytes.
func checkSlot(data []byte) error {
	c := cursor{data: data}
	for c.next() {
	}
	return c.err
}
