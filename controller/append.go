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
		if !errors.Is(err, psg.ErrInvalid) || len(left[0]) < 2 {
			return record, left[1:], err
		}
		at := middle(left[0])
		left = slices.Concat([][]psg.Delta{left[0][:at], left[0][at:]}, left[1:])
	}
}

// middle is where to cut deltas in two: near the middle between decisions on two
// workloads, or else, for one workload too large for any record, within it.
func middle(deltas []psg.Delta) int {
	half := len(deltas) / 2
	for at := half; at < len(deltas); at++ {
		if !placesSame(deltas[at-1], deltas[at]) {
			return at
		}
	}
	for at := half; at > 0; at-- {
		if !placesSame(deltas[at-1], deltas[at]) {
			return at
		}
	}
	return half
}
