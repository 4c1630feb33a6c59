package placement

import (
	"math/bits"
	"slices"

	"github.com/psgrid/psg"
)

// Fragmentation, after FGD (Weng et al., "Beware of Fragmentation", USENIX
// ATC'23): a node's cards are worth what the expected mix of demand can use of
// them, and an instance should go where it destroys the least of that worth
// beyond its own use. FGD counts all free cards of a node as usable by a demand
// that fits there once; we let a quarter of the worth be no more than what the
// node's free CPU and memory can carry of that demand, which tells apart nodes
// that FGD sees as equal, and measures better on all its traces.

// fragmentStep is the milli-GPU of expected loss that count as equal. Finer
// scores lose: they scatter instances over nodes that hardly differ instead of
// filling one.
const fragmentStep = 40

// worth is the milli-GPU of a node that the mix can use, times weightTotal,
// with what is free on its cards and of its CPU and memory.
func (e *Engine) worth(slot int32, free []int64, cpuMHz, memoryMB int64) int64 {
	cpuMHz, memoryMB = max(0, min(mostAmount, cpuMHz)), max(0, min(mostAmount, memoryMB))
	sum := int64(0)
	for i := range e.demands.mix {
		g := &e.demands.mix[i]
		v := g.filter.on(e, slot)
		if !v.ok {
			continue
		}
		usable := usable(free, v.cards[0], g.milli, g.count)
		if usable == 0 {
			continue
		}
		wanted := g.milli * int64(g.count)
		for j := range g.members {
			m := &g.members[j]
			carried := min(cpuMHz*m.perMHz>>rateShift, memoryMB*m.perMB>>rateShift)
			worth := min(usable, carried)
			if carried >= wanted {
				worth += 3 * usable
			}
			sum += m.weight * worth
		}
	}
	return sum / 4
}

// shareable is what of a card can be shared out, in milli.
func (c *card) shareable() int64 {
	if !c.usable || c.cuts > 0 {
		return 0
	}
	return c.milli
}

// usable sums what is free on the cards of a set that have at least so much, if
// there are enough of them.
func usable(free []int64, set uint64, milli int64, count int) int64 {
	sum := int64(0)
	for i, have := range free {
		if have >= milli && set>>i&1 != 0 {
			sum += have
			count--
		}
	}
	if count > 0 {
		return 0
	}
	return sum
}

// lost is how much worth, in milli-GPU, a node loses with an instance of a
// shape beyond what the instance itself uses, and the card that a single share
// is best taken from (-1 where that does not matter).
func (e *Engine) lost(s *shape, n *node, v *verdict) (loss int64, card int) {
	room := &e.rooms[n.slot]
	need := room.need(s.request)
	cpu, memory := room.free[psg.CPU]-need[psg.CPU], room.free[psg.Memory]-need[psg.Memory]
	before := e.worths[n.slot]
	if before < 0 {
		before = e.worth(n.slot, n.free, room.free[psg.CPU], room.free[psg.Memory])
		e.worths[n.slot] = before
	}
	if s.sharesOneCard() {
		after, at := e.bestShare(s, n, v, cpu, memory)
		return (before-after)/weightTotal - s.plain.MilliGPU, at
	}
	free, used, opened := n.free, int64(0), int64(0)
	switch {
	case s.plain != nil && wantsWhole(s.plain):
		after := e.worthWithoutWhole(n, v.cards[0], s.plain.Count, cpu, memory)
		return (before-after)/weightTotal - wholeCard*int64(s.plain.Count), -1
	case len(s.devices) > 0:
		free = slices.Clone(n.free)
		shares, _ := n.assign(s, v)
		for _, share := range shares {
			i := n.byID[share.Device]
			free[i] -= share.MilliGPU
			used += share.MilliGPU
			if n.cards[i].shares == 0 && share.MilliGPU < wholeCard {
				opened += wholeCard - share.MilliGPU // no longer to be had whole
			}
		}
	}
	after := e.worth(n.slot, free, cpu, memory)
	return (before-after)/weightTotal - used + opened, -1
}

// hand chooses the cards that an instance gets on a node where it fits.
func (e *Engine) hand(s *shape, n *node) []psg.DeviceShare {
	v := s.filter.on(e, n.slot)
	if s.sharesOneCard() {
		if _, card := e.lost(s, n, v); card >= 0 {
			share, _ := n.cards[card].share(0, s.plain)
			return []psg.DeviceShare{share}
		}
	}
	shares, _ := n.assign(s, v)
	return shares
}

// sharesOneCard reports whether an instance takes one share of one card, which
// card being a matter of fragmentation.
func (s *shape) sharesOneCard() bool {
	return s.plain != nil && s.plain.Count == 1 && s.plain.Profile == "" && s.plain.MilliGPU > 0 && s.plain.MilliGPU < wholeCard
}

// bestShare tries the share on each card that can give it, and returns the
// worth that the best one leaves.
func (e *Engine) bestShare(s *shape, n *node, v *verdict, cpu, memory int64) (best int64, card int) {
	card = -1
	var tried [8]int64
	for set := v.cards[0]; set != 0; set &= set - 1 {
		i := bits.TrailingZeros64(set)
		if _, ok := n.cards[i].share(0, s.plain); !ok {
			continue
		}
		had := n.free[i]
		if seen(&tried, had) {
			continue // a card like one that was tried
		}
		n.free[i] -= s.plain.MilliGPU
		worth := e.worth(n.slot, n.free, cpu, memory)
		n.free[i] = had
		if card < 0 || worth > best {
			best, card = worth, i
		}
	}
	return best, card
}

// seen reports whether a value is among those noted, and notes it if there is
// room; values are above zero.
func seen(noted *[8]int64, value int64) bool {
	for i, v := range noted {
		if v == value {
			return true
		}
		if v == 0 {
			noted[i] = value
			return false
		}
	}
	return false
}

// worthWithoutWhole is the worth of a node without the first so many whole
// cards of a set.
func (e *Engine) worthWithoutWhole(n *node, set uint64, count int, cpu, memory int64) int64 {
	var taken uint64
	for i := range n.free {
		if count > 0 && n.free[i] == wholeCard && n.cards[i].shares == 0 && set>>i&1 != 0 {
			n.free[i] = 0
			taken |= 1 << i
			count--
		}
	}
	worth := e.worth(n.slot, n.free, cpu, memory)
	for ; taken != 0; taken &= taken - 1 {
		n.free[bits.TrailingZeros64(taken)] = wholeCard
	}
	return worth
}

// floorDiv rounds towards minus infinity, so that steps are of one width.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
