package heap

import (
	"context"
	"errors"
	"runtime/debug"
	"testing"
	"time"
)

func TestLimit_KeepsWithinTotalAndTheGroup(t *testing.T) {
	const most = int64(1 << 62)
	for inUse, want := range map[uint64]int64{
		0: Room, Room / 2: Room, Room/2 + 100: Room + 200, Total / 2: Total, Total * 5 / 8: Total, Total*5/8 + 100: Total + 400,
	} {
		if got := limit(inUse, most); got != want {
			t.Errorf("limit(%d) = %d, want %d", inUse, got, want)
		}
	}
	for inUse := uint64(Total); inUse < 1<<40; inUse *= 2 { // where collection is as ever
		if got := limit(inUse, most); got < 2*int64(inUse) {
			t.Errorf("limit(%d) = %d, which collects more often", inUse, got)
		}
	}
	if got := limit(1<<40, 160<<20); got != 150<<20 {
		t.Errorf("in a group of 160 MiB the limit is %d", got)
	}
}

func TestSpend_SetsWhatItLeavesAsItWas(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	now := func() int {
		p := debug.SetGCPercent(most)
		debug.SetGCPercent(p)
		return p
	}
	before, limited := now(), debug.SetMemoryLimit(-1)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Spend(ctx) }()
	retry := time.NewTicker(10 * time.Millisecond)
	defer retry.Stop()
	for end := time.Now().Add(time.Minute); debug.SetMemoryLimit(-1) != Room; <-retry.C { // a test has little in use
		if time.Now().After(end) {
			t.Fatalf("the limit is %d, want %d", debug.SetMemoryLimit(-1), int64(Room))
		}
	}
	if got := now(); got != most {
		t.Errorf("GC percent is %d, want %d", got, most)
	}
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) || now() != before || debug.SetMemoryLimit(-1) != limited {
		t.Errorf("Spend = %v, and GC percent is %d, was %d; the limit is %d, was %d", err, now(), before, debug.SetMemoryLimit(-1), limited)
	}
}
