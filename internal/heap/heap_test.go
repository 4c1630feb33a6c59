package heap

import (
	"context"
	"errors"
	"runtime/debug"
	"testing"
	"time"
)

func TestPercent_FillsTheRoomAndNoMore(t *testing.T) {
	for inUse, want := range map[uint64]int{0: most, 1 << 20: most, Room / 4: 300, Room / 2: least, Room: least, 10 * Room: least} {
		if got := percent(inUse); got != want {
			t.Errorf("percent(%d) = %d, want %d", inUse, got, want)
		}
	}
	for inUse := uint64(1 << 20); inUse < Room/2; inUse += 1 << 20 {
		if peak := inUse + inUse*uint64(percent(inUse))/100; peak > Room {
			t.Fatalf("%d in use grow to %d, over %d", inUse, peak, uint64(Room))
		}
	}
}

func TestSpend_SetsWhatItLeavesAsItWas(t *testing.T) {
	t.Setenv("GOGC", "")
	now := func() int {
		p := debug.SetGCPercent(least)
		debug.SetGCPercent(p)
		return p
	}
	before := now()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Spend(ctx) }()
	retry := time.NewTicker(10 * time.Millisecond)
	defer retry.Stop()
	for end := time.Now().Add(time.Minute); now() != most; <-retry.C { // a test has little in use
		if time.Now().After(end) {
			t.Fatalf("GC percent is %d, want %d", now(), most)
		}
	}
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) || now() != before {
		t.Errorf("Spend = %v, and GC percent is %d, was %d", err, now(), before)
	}
}
