package placement

import (
	"fmt"
	"math/bits"

	"github.com/psgrid/psg"
)

// plainAsk is the one device ask of a shape that needs no search: its cards
// can be taken in any order of preference without one ask crossing another.
func (s *shape) plainAsk() *psg.DeviceAsk {
	if len(s.devices) != 1 || s.numa == "prefer" || s.numa == "require" {
		return nil
	}
	ask := &s.devices[0]
	if ask.Linked || len(ask.Affinities) > 0 {
		return nil
	}
	return ask
}

// cardsFit reports whether a node has the cards for a shape.
func (n *node) cardsFit(s *shape, v *verdict) bool {
	if len(s.devices) == 0 {
		return true
	}
	if ask := s.plain; ask != nil {
		return n.canServe(ask, v.cards[0]) >= ask.Count
	}
	_, ok := n.assign(s, v)
	return ok
}

// canServe counts the cards of a set that can serve an ask now.
func (n *node) canServe(ask *psg.DeviceAsk, set uint64) int {
	count := 0
	for ; set != 0; set &= set - 1 {
		if _, ok := n.cards[bits.TrailingZeros64(set)].share(0, ask); ok {
			count++
		}
	}
	return count
}

// objectCards raises what is missing of a shape's device asks.
func (n *node) objectCards(s *shape, v *verdict, o *objections) {
	if n.cardsFit(s, v) {
		return
	}
	each := false
	for i := range s.devices {
		ask, text := &s.devices[i], s.deviceTexts[i]
		have, free := bits.OnesCount64(v.cards[i]), n.canServe(ask, v.cards[i])
		if free >= ask.Count {
			continue
		}
		each = true
		if have < ask.Count {
			o.seen("device", text, fmt.Sprintf(": %d of %d here", have, ask.Count))
			continue
		}
		o.short("device", text, int64(1000*(ask.Count-free)/ask.Count), ": %d of %d free", free, ask.Count)
	}
	if !each {
		o.short("device", "its devices together", 1000, ": each ask fits alone, not all on one node%s", s.together())
	}
}

// together names the condition that joins several devices.
func (s *shape) together() string {
	switch {
	case s.numa == "require":
		return " and NUMA node"
	case len(s.devices) == 1:
		return " and link island"
	}
	return ""
}

// deviceText says what one device ask wants of each card.
func deviceText(ask *psg.DeviceAsk) string {
	text := ask.Name
	switch {
	case ask.Profile != "":
		text += " slice " + ask.Profile
	case wantsWhole(ask):
		text = "whole " + text
	case ask.MilliGPU > 0:
		text = fmt.Sprintf("%d milli of %s", ask.MilliGPU, text)
	}
	if ask.MemoryMB > 0 {
		text += fmt.Sprintf(" with memory_mb %d", ask.MemoryMB)
	}
	if len(ask.Constraints) > 0 {
		text += " meeting " + constraintText(ask.Constraints[0])
		if more := len(ask.Constraints) - 1; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
	}
	return text
}
