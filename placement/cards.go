package placement

import (
	"github.com/psgrid/psg"
)

// wholeCard is one whole device in milli-GPU.
const wholeCard = 1000

// card is what is left of one device. It is whole, shared by milli-GPU and
// memory, or cut into MIG slices; never two of these at once.
type card struct {
	spec     *psg.Device
	usable   bool // healthy, and not handed out by somebody else
	milli    int64
	memory   int64
	shares   int      // holdings of any kind
	cuts     int      // of which MIG slices
	media    int      // of which with media extensions
	slices   uint8    // memory slices taken
	holders  [8]uint8 // of each memory slice: more than one where a reservation waits for another's end
	shape    geometry
	profiles []profile
}

func newCards(devices []psg.Device) []card {
	cards := make([]card, min(len(devices), maxCards))
	for i := range cards {
		d := &devices[i]
		c := &cards[i]
		*c = card{spec: d, usable: d.Healthy && !d.Foreign, milli: wholeCard, memory: d.MemoryMB}
		if len(d.Profiles) > 0 {
			c.shape = cardGeometry(d.Profiles, d.MemoryMB)
		}
		for _, name := range d.Profiles {
			if p, ok := c.shape.profile(name); ok {
				c.profiles = append(c.profiles, p)
			}
		}
	}
	return cards
}

// hold takes a share, or gives it back with sign -1.
func (c *card) hold(s psg.DeviceShare, sign int) {
	c.milli -= int64(sign) * s.MilliGPU
	c.memory -= int64(sign) * s.MemoryMB
	c.shares += sign
	if s.Profile == "" {
		return
	}
	c.cuts += sign
	p, ok := c.shape.profile(s.Profile)
	if !ok || s.Slot < 0 || s.Slot >= 8 {
		return
	}
	if p.media {
		c.media += sign
	}
	for at := s.Slot; at < min(s.Slot+p.slices, len(c.holders)); at++ {
		if c.holders[at] += uint8(sign); c.holders[at] > 0 {
			c.slices |= 1 << at
		} else {
			c.slices &^= 1 << at
		}
	}
}

// share is what a device ask would hold on the card; ok is false where the
// card can't give it.
//
// An ask for a share that names no memory takes memory in proportion, so that
// shares of a full card leave no memory behind for others; an ask for neither
// share, memory nor profile is for the whole card.
func (c *card) share(index int, ask *psg.DeviceAsk) (psg.DeviceShare, bool) {
	s := psg.DeviceShare{Device: c.spec.ID, Ask: index}
	switch {
	case !c.usable:
		return s, false
	case ask.Profile != "":
		return c.slice(s, ask)
	case c.cuts > 0:
		return s, false
	case wantsWhole(ask):
		s.MilliGPU, s.MemoryMB = wholeCard, c.spec.MemoryMB
		return s, c.shares == 0 && ask.MemoryMB <= c.spec.MemoryMB
	}
	s.MilliGPU, s.MemoryMB = ask.MilliGPU, ask.MemoryMB
	if s.MemoryMB == 0 {
		s.MemoryMB = c.spec.MemoryMB * s.MilliGPU / wholeCard
	}
	return s, s.MilliGPU <= c.milli && s.MemoryMB <= c.memory
}

func (c *card) slice(s psg.DeviceShare, ask *psg.DeviceAsk) (psg.DeviceShare, bool) {
	if c.shares > c.cuts || !listed(c.spec.Profiles, ask.Profile) {
		return s, false
	}
	p, ok := c.shape.profile(ask.Profile)
	if !ok || p.media && c.media > 0 {
		return s, false
	}
	start, ok := c.cut(p)
	s.Profile, s.Slot = ask.Profile, start
	s.MilliGPU = int64(wholeCard * p.compute / c.shape.compute)
	s.MemoryMB = c.spec.MemoryMB * int64(p.slices) / int64(c.shape.slices)
	return s, ok && ask.MemoryMB <= s.MemoryMB
}

func wantsWhole(ask *psg.DeviceAsk) bool {
	return ask.Profile == "" && (ask.MilliGPU == wholeCard || ask.MilliGPU == 0 && ask.MemoryMB == 0)
}

func listed(names []string, name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
}
