package placement

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/psgrid/psg"
)

// anyNUMA means that cards of every NUMA node may be mixed.
const anyNUMA = -2

// assign finds cards on a node for all of a shape's device asks. Within one
// ask the cards are distinct. The search tries the preferred cards first and is
// exact up to maxSearch steps, beyond which the node counts as not fitting.
func (n *node) assign(s *shape, v *verdict) ([]psg.DeviceShare, bool) {
	if len(s.devices) == 0 {
		return nil, true
	}
	for _, numa := range n.numaChoices(s) {
		search := newCardSearch(n, s, v, numa)
		if search.from(0) {
			return search.inOrder(), true
		}
	}
	return nil, false
}

// numaChoices are the NUMA nodes to try, best first.
func (n *node) numaChoices(s *shape) []int {
	if s.numa != "prefer" && s.numa != "require" {
		return []int{anyNUMA}
	}
	var choices []int
	for i := range n.cards {
		if numa := n.cards[i].spec.NUMA; numa >= 0 {
			choices = append(choices, numa)
		}
	}
	slices.Sort(choices)
	choices = slices.Compact(choices)
	if s.numa == "prefer" {
		choices = append(choices, anyNUMA)
	}
	return choices
}

// cardSearch looks for cards by depth-first search over the asks.
type cardSearch struct {
	shape  *shape
	cards  []card   // a copy: what the search has taken is taken here
	may    []uint64 // per ask: the cards it may use
	order  []int    // asks, those with the fewest cards to choose from first
	taken  []psg.DeviceShare
	filter *filter
	steps  int
}

func newCardSearch(n *node, s *shape, v *verdict, numa int) *cardSearch {
	c := &cardSearch{shape: s, cards: slices.Clone(n.cards), may: slices.Clone(v.cards), filter: s.filter}
	for i := range c.cards {
		if numa != anyNUMA && c.cards[i].spec.NUMA != numa {
			for ask := range c.may {
				c.may[ask] &^= 1 << i
			}
		}
	}
	for i := range s.devices {
		c.order = append(c.order, i)
	}
	slices.SortStableFunc(c.order, func(a, b int) int {
		return cmp.Compare(bits.OnesCount64(c.may[a]), bits.OnesCount64(c.may[b]))
	})
	return c
}

// from places the asks at and after a position in the order.
func (c *cardSearch) from(at int) bool {
	if at == len(c.order) {
		return true
	}
	index := c.order[at]
	ask := &c.shape.devices[index]
	if !ask.Linked {
		return c.pick(at, ask.Count, c.preferred(index, c.may[index]), 0)
	}
	for _, island := range c.islands(index) {
		if c.pick(at, ask.Count, c.preferred(index, island), 0) {
			return true
		}
	}
	return ask.Count == 0 && c.from(at+1)
}

// pick takes need more cards among candidates for the ask at a position, then
// goes on to the next ask.
func (c *cardSearch) pick(at, need int, candidates []int, first int) bool {
	if need == 0 {
		return c.from(at + 1)
	}
	index := c.order[at]
	for i := first; len(candidates)-i >= need; i++ {
		if c.steps++; c.steps > maxSearch {
			return false
		}
		if i > first && c.alike(candidates[i-1], candidates[i]) {
			continue // where its like has failed, so would it
		}
		card := &c.cards[candidates[i]]
		share, ok := card.share(index, &c.shape.devices[index])
		if !ok {
			continue
		}
		card.hold(share, 1)
		c.taken = append(c.taken, share)
		if c.pick(at, need-1, candidates, i+1) {
			return true
		}
		c.taken = c.taken[:len(c.taken)-1]
		card.hold(share, -1)
	}
	return false
}

// alike reports whether two cards are in the same state, and serve the same
// asks in the same company.
func (c *cardSearch) alike(i, j int) bool {
	a, b := &c.cards[i], &c.cards[j]
	if a.milli != b.milli || a.memory != b.memory || a.shares != b.shares || a.cuts != b.cuts || a.slices != b.slices ||
		a.media != b.media || a.spec.MemoryMB != b.spec.MemoryMB || a.spec.Link != b.spec.Link || len(a.profiles) != len(b.profiles) {
		return false
	}
	for _, may := range c.may {
		if may>>i&1 != may>>j&1 {
			return false
		}
	}
	return slices.Equal(a.spec.Profiles, b.spec.Profiles)
}

// preferred lists the cards of a set that can serve an ask, best first: those
// its affinities draw it to, then the fullest that still fits, so that whole
// cards, wide link islands and uncut cards stay for those who need them.
func (c *cardSearch) preferred(index int, set uint64) []int {
	ask := &c.shape.devices[index]
	type choice struct {
		card              int
		draw, rest, cards int64
	}
	var choices []choice
	for ; set != 0; set &= set - 1 {
		i := bits.TrailingZeros64(set)
		card := &c.cards[i]
		if _, ok := card.share(index, ask); !ok {
			continue
		}
		choices = append(choices, choice{i, c.filter.devices[index].attracts(card.spec), card.rest(ask), c.idleOn(card.spec.Link)})
	}
	slices.SortFunc(choices, func(a, b choice) int {
		return cmp.Or(cmp.Compare(b.draw, a.draw), cmp.Compare(a.rest, b.rest), cmp.Compare(a.cards, b.cards), cmp.Compare(a.card, b.card))
	})
	cards := make([]int, len(choices))
	for i, choice := range choices {
		cards[i] = choice.card
	}
	return cards
}

// rest is what a card has left before the ask, in its own measure.
func (c *card) rest(ask *psg.DeviceAsk) int64 {
	switch {
	case ask.Profile != "":
		return int64(c.cutsLeft(c.slices))
	case ask.MilliGPU == 0 && ask.MemoryMB > 0:
		return c.memory
	}
	return c.milli
}

// idleOn counts the whole cards left on a link island.
func (c *cardSearch) idleOn(link string) int64 {
	if link == "" {
		return 0
	}
	idle := int64(0)
	for i := range c.cards {
		if c.cards[i].spec.Link == link && c.cards[i].usable && c.cards[i].shares == 0 {
			idle++
		}
	}
	return idle
}

// islands are the link islands that can serve an ask, the narrowest first.
func (c *cardSearch) islands(index int) []uint64 {
	byLink := make(map[string]uint64)
	for set := c.may[index]; set != 0; set &= set - 1 {
		i := bits.TrailingZeros64(set)
		if _, ok := c.cards[i].share(index, &c.shape.devices[index]); ok && c.cards[i].spec.Link != "" {
			byLink[c.cards[i].spec.Link] |= 1 << i
		}
	}
	islands := make([]uint64, 0, len(byLink))
	for _, set := range byLink {
		islands = append(islands, set)
	}
	slices.SortFunc(islands, func(a, b uint64) int {
		return cmp.Or(cmp.Compare(bits.OnesCount64(a), bits.OnesCount64(b)), cmp.Compare(bits.TrailingZeros64(a), bits.TrailingZeros64(b)))
	})
	return islands
}

// inOrder returns what was taken, by ask and card.
func (c *cardSearch) inOrder() []psg.DeviceShare {
	slices.SortStableFunc(c.taken, func(a, b psg.DeviceShare) int { return cmp.Compare(a.Ask, b.Ask) })
	return c.taken
}
