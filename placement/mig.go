package placement

import (
	"math/bits"
	"strconv"
	"strings"
)

// MIG placement: a card's memory is cut into equal slices (8 on A100, H100 and
// their kin, 4 on A30) and a profile takes a run of them, aligned to its own
// length, that leaves its compute slices (7, or 4) within the card. That one
// rule yields the tables in NVIDIA's MIG user guide: 1g at 0..6, 2g at 0, 2, 4,
// 3g at 0, 4, 4g at 0, 7g at 0.

// profile is one way to cut a card.
type profile struct {
	compute int
	slices  int
	media   bool // "+me": at most one on a card
}

// geometry is how a card divides.
type geometry struct {
	slices  int
	compute int
	memory  int // GB of the whole card, as profile names count
}

// profileName reads "3g.40gb" or "1g.10gb+me".
func profileName(name string) (compute, gigabytes int, media, ok bool) {
	name, media = strings.CutSuffix(name, "+me")
	left, right, found := strings.Cut(name, "g.")
	size, isSize := strings.CutSuffix(right, "gb")
	if !found || !isSize {
		return 0, 0, false, false
	}
	compute, err := strconv.Atoi(left)
	if err != nil || compute < 1 || compute > 7 {
		return 0, 0, false, false
	}
	gigabytes, err = strconv.Atoi(size)
	return compute, gigabytes, media, err == nil && gigabytes > 0
}

// cardGeometry derives how a card divides from its profiles and memory.
func cardGeometry(profiles []string, memoryMB int64) geometry {
	g := geometry{slices: 8, compute: 7, memory: int((memoryMB + 512) / 1024)}
	most := 0
	for _, name := range profiles {
		compute, gigabytes, _, ok := profileName(name)
		if ok && compute > most {
			most = compute
			if compute == 7 || compute == 4 {
				g.memory = max(g.memory, gigabytes)
			}
		}
	}
	if most == 4 && g.memory <= 24 {
		g.slices, g.compute = 4, 4
	}
	return g
}

// profile reads a profile for this card; ok is false where it can't be cut so.
func (g geometry) profile(name string) (profile, bool) {
	compute, gigabytes, media, ok := profileName(name)
	if !ok || g.memory <= 0 || gigabytes > 2*g.memory {
		return profile{}, false
	}
	slices := max(1, (gigabytes*g.slices+g.memory/2)/g.memory)
	if bits.OnesCount(uint(slices)) != 1 || slices > g.slices || compute > g.compute {
		return profile{}, false
	}
	return profile{compute, slices, media}, true
}

// mask is the run of slices from start.
func (p profile) mask(start int) uint8 { return uint8((1<<p.slices - 1) << start) }

// starts counts, or visits, where the profile can still be cut.
func (g geometry) starts(p profile, taken uint8, visit func(start int)) int {
	count := 0
	for start := 0; start+p.slices <= g.slices && start+p.compute <= g.compute; start += p.slices {
		if taken&p.mask(start) != 0 {
			continue
		}
		count++
		if visit != nil {
			visit(start)
		}
	}
	return count
}

// cut chooses where to cut a profile: the start that leaves the most ways to
// cut the card's other profiles, the highest such.
func (c *card) cut(p profile) (start int, ok bool) {
	best := -1
	c.shape.starts(p, c.slices, func(at int) {
		if left := c.cutsLeft(c.slices | p.mask(at)); left >= best {
			best, start, ok = left, at, true
		}
	})
	return start, ok
}

func (c *card) cutsLeft(taken uint8) int {
	left := 0
	for _, p := range c.profiles {
		left += c.shape.starts(p, taken, nil)
	}
	return left
}
