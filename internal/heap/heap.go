// Package heap spends memory on answering sooner. Go collects garbage when as
// much has been made as is in use: where that is little, many times a second, and
// whoever waits for an answer then waits longer. Called by cmd/psg for a
// controller, and by the benchmark that says how long one takes.
package heap

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Room is how much a heap may hold before memory is spared. A controller that
// follows 10,000 allocations of Nomad's stays below 250 MB with it.
const Room = 192 << 20

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
// collection is as ever. Whoever has set GOGC has decided otherwise.
func Spend(ctx context.Context) error {
	if os.Getenv("GOGC") != "" {
		<-ctx.Done()
		return ctx.Err()
	}
	defer debug.SetGCPercent(debug.SetGCPercent(least))
	look := time.NewTicker(every)
	defer look.Stop()
	inUse := []metrics.Sample{{Name: live}}
	for set := 0; ; {
		metrics.Read(inUse)
		if p := percent(inUse[0].Value.Uint64()); p != set {
			debug.SetGCPercent(p)
			set = p
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
