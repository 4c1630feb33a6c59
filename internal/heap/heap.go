// Package heap spends memory on answering sooner. Go collects garbage when as
// much has been made as is in use: where that is little, many times a second, and
// whoever waits for an answer then waits longer. Called by cmd/psg for a
// controller, and by the benchmark that says how long one takes.
package heap

import (
	"context"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Room is how much memory of its own a process may take before it is spared. A
// controller that follows 10,000 allocations of Nomad's stays below 200 MB with it, its
// program's pages included.
const Room = 144 << 20

// Total is how much it may take altogether, as long as what it has in use leaves it
// room to: with it a controller of 5,000 nodes and 100,000 placements runs in less
// than 500 MB, its program's pages included.
const Total = 416 << 20

// most is how much garbage there may be, in percent of what is in use, whatever room
// there is: more would not make faster.
const most = 400

// every is how often it is looked how much is in use. What is in use may grow beyond
// the limit in between: then a part of the time goes to collecting.
const every = 250 * time.Millisecond

const live = "/gc/heap/live:bytes"

// Spend has garbage fill Room before it is collected, until ctx ends; above it
// collection is as ever, when there is as much garbage as is in use. All is collected
// in time to stay within Total, and within what the process's control group may have.
// Whoever has set GOGC or GOMEMLIMIT has decided otherwise.
//
// The bound is a limit and no percentage: that would be of what was in use when it
// was looked last, and a burst makes that many times as much.
func Spend(ctx context.Context) error {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		<-ctx.Done()
		return ctx.Err()
	}
	group := groupLimit(os.DirFS("/"))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	defer debug.SetGCPercent(debug.SetGCPercent(most))
	look := time.NewTicker(every)
	defer look.Stop()
	inUse := []metrics.Sample{{Name: live}}
	for set := int64(-1); ; {
		metrics.Read(inUse)
		if l := limit(inUse[0].Value.Uint64(), group); l != set {
			debug.SetMemoryLimit(l)
			set = l
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-look.C:
		}
	}
}

// limit is how much memory a process may take where so much is in use: Room, and
// beyond half of it twice what is in use. Beyond five eighths of Total it grows by
// more than what is in use does, until it limits nothing: collecting without end would
// help nobody. What the control group may have is another matter: beyond it the
// process is killed.
func limit(inUse uint64, group int64) int64 {
	use := int64(min(inUse, math.MaxInt64>>4))
	within := int64(Total)
	if spent := use - Total*5/8; spent > 0 {
		within += 4 * spent
	}
	return min(max(Room, 2*use), within, group/16*15)
}
