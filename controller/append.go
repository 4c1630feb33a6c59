package controller

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/psgrid/psg"
)

// append writes the first of some records to the log, or as much of it as the
// log takes in one, and returns it and what is left. The log alone knows how
// much that is: records are bounded by their number of deltas, and of those some
// are a job with a megabyte of text.
func (c *Controller) append(ctx context.Context, left [][]psg.Delta, now time.Time) (psg.Record, [][]psg.Delta, error) {
	for {
		record := psg.Record{
			Sequence: c.state.Sequence() + 1, Epoch: c.state.Epoch(), At: now, Deltas: left[0],
		}
		err := c.log.Append(ctx, record)
		if !errors.Is(err, psg.ErrInvalid) {
			return record, left[1:], err
		}
		at := c.middle(left[0])
		if at == 0 {
			return record, left[1:], err
		}
		left = slices.Concat([][]psg.Delta{left[0][:at], left[0][at:]}, left[1:])
	}
}

// middle is where to cut deltas in two: near the middle between decisions on two
// workloads, or else, for one workload too large for any record, within it; never
// within a gang. 0 means nowhere.
func (c *Controller) middle(deltas []psg.Delta) int {
	whole := func(at int) bool { return !c.placesGang(deltas[at-1], deltas[at]) }
	if at := nearMiddle(deltas, func(at int) bool { return whole(at) && !placesSame(deltas[at-1], deltas[at]) }); at > 0 {
		return at
	}
	return nearMiddle(deltas, whole)
}

// nearMiddle is the first place from the middle on where deltas may be cut, or
// else the last before it; 0 for none.
func nearMiddle(deltas []psg.Delta, may func(at int) bool) int {
	half := max(1, len(deltas)/2)
	for at := half; at < len(deltas); at++ {
		if may(at) {
			return at
		}
	}
	for at := min(half, len(deltas)) - 1; at > 0; at-- {
		if may(at) {
			return at
		}
	}
	return 0
}
