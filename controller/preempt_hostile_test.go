package controller

import (
	"testing"

	"github.com/psgrid/psg"
)

func TestPreempt_WhatIsGivenUpIsNotBegunAgainUnasked(t *testing.T) {
	w, _, _ := full(t)
	if got := w.preempts("u1", "", 0); len(got.orders) != 2 {
		t.Fatalf("%+v", got)
	}
	w.now = w.now.Add(preemptWithin)
	w.cycle()
	for range 5 { // each looks at what waits
		w.now = w.now.Add(resolveAfter)
		w.cycle()
		if w.state("u1") != psg.Queued || w.inWay("l1") {
			t.Fatalf("u1 is %s, l1 makes way: %v", w.state("u1"), w.inWay("l1"))
		}
	}
	w.checkLog()
}
