package controller

import (
	"errors"
	"fmt"
	"testing"

	"github.com/psgrid/psg"
)

func TestPolls_AreBoundedByTheAsksTheyWaitForToo(t *testing.T) {
	const limit, each = 10_000, 9_000
	p := newPolls(limit)
	ids := make([]psg.RequestID, each)
	for i := range ids {
		ids[i] = psg.RequestID(fmt.Sprint(i))
	}
	var opened []*poll
	for len(opened) < limit {
		one, err := p.open(ids)
		if errors.Is(err, psg.ErrBusy) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		opened = append(opened, one)
	}
	if n := len(opened) * each; n > limit*asksAPoll || n < limit*asksAPoll-each {
		t.Fatalf("%d polls wait for %d asks, want at most %d", len(opened), n, limit*asksAPoll)
	}
	if one, err := p.open(ids[:1]); err != nil {
		t.Errorf("a gate's poll: %v", err)
	} else {
		p.close(one)
	}
	for _, one := range opened {
		p.close(one)
	}
	if p.asks != 0 || p.count != 0 || len(p.waiting) != 0 {
		t.Errorf("left: %d asks, %d polls, %d waited for", p.asks, p.count, len(p.waiting))
	}
}
