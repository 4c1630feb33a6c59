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

// Room is how much a heap may hold before memory is spared. A controller that
// follows 10,000 allocations of Nomad's stays below 250 MB with it.
const Room = 192 << 20

// Total is how much memory of its own a process may take altogether, as long as
// what it has in use leaves it room to: with it a controller of 5,000 nodes and
// 100,000 placements runs in less than 500 MB, its program's pages included.
const Total = 416 << 20

// The bounds of how much garbage there may be, in percent of what is in use: Go's
// own default, and what more would not make faster.
const (
	least = 100
	most  = 400
)

// every is how often it is looked how much is in use.
const every = time.Second

const live = "/gc/heap/live:bytes"

// Spend has garbage fill up Room before it is collected, until ctx ends; above it
// collection is as ever. All is collected in time to stay within Total, and within
// what the process's control group may have. Whoever has set GOGC or GOMEMLIMIT has
// decided otherwise.
func Spend(ctx context.Context) error {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		<-ctx.Done()
		return ctx.Err()
	}
	group := groupLimit(os.DirFS("/"))
	defer debug.SetGCPercent(debug.SetGCPercent(least))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	look := time.NewTicker(every)
	defer look.Stop()
	inUse := []metrics.Sample{{Name: live}}
	var setPercent int
	var setLimit int64
	for {
		metrics.Read(inUse)
		if p := percent(inUse[0].Value.Uint64()); p != setPercent {
			debug.SetGCPercent(p)
			setPercent = p
		}
		if l := limit(inUse[0].Value.Uint64(), group); l != setLimit {
			debug.SetMemoryLimit(l)
			setLimit = l
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-look.C:
		}
	}
}

// percent is how much garbage there may be where so much is in use.
func percent(inUse uint64) int {
	if inUse >= Room {
		return least
	}
	return int(min(max((Room-inUse)*100/max(inUse, 1), least), most))
}

// limit is how much memory a process may take where so much is in use. Beyond five
// eighths of Total it grows by more than what is in use does, until it limits
// nothing: collecting without end would help nobody. What the control group may have
// is another matter: beyond it the process is killed.
func limit(inUse uint64, group int64) int64 {
	own := int64(Total)
	if spent := int64(min(inUse, math.MaxInt64>>4)) - Total*5/8; spent > 0 {
		own += 4 * spent
	}
	return min(own, group/16*15)
}
