package flood

import (
	"testing"
	"time"
)

func TestLimit_LeavesOutWhatFloodsAndSaysHowMuch(t *testing.T) {
	var l Limit
	now := time.Unix(1_800_000_000, 0)
	logged, told := 0, 0
	const sent = 10_000
	for i := range sent { // in ten seconds
		if left, ok := l.Take(now.Add(time.Duration(i) * time.Millisecond)); ok {
			logged, told = logged+1, told+left
		}
	}
	if logged != 10*lines {
		t.Errorf("%d lines are logged in ten seconds, want %d", logged, 10*lines)
	}
	left, ok := l.Take(now.Add(time.Minute))
	if told += left; !ok || logged+told != sent {
		t.Errorf("%d lines and %d left out, of %d", logged, told, sent)
	}
	if left, ok := l.Take(now); !ok || left != 0 {
		t.Errorf("after the clock was set back: %d, %t", left, ok)
	}
}
