package psg

import (
	"cmp"
	"encoding/json"
	"iter"
	"slices"
)

// leafSize is how many placements a leaf has at most. Small leaves are cheap to
// replace, large ones are few: 128 suits hundreds of thousands of placements.
const leafSize = 128

// Placements are placements in the order of their asks' IDs, one for each ask.
// They are immutable: Renew returns others, which share what has not changed.
// What they point to is shared with whoever made them and must not be changed.
// The zero value holds none.
type Placements struct {
	leaves [][]*Placement // none empty, none over leafSize
	count  int
}

// PlacementsOf returns placements in their order. Of several for one ask the
// last stays.
func PlacementsOf(list ...Placement) Placements {
	last := make(map[RequestID]*Placement, len(list))
	ids := make([]RequestID, len(list))
	for i := range list {
		p := list[i]
		ids[i], last[p.Ask.ID] = p.Ask.ID, &p
	}
	return Placements{}.Renew(ids, func(id RequestID) *Placement { return last[id] })
}

// Len is how many there are.
func (p Placements) Len() int { return p.count }

// All goes through them in their order.
func (p Placements) All() iter.Seq[*Placement] {
	return func(yield func(*Placement) bool) {
		for _, leaf := range p.leaves {
			for _, placement := range leaf {
				if !yield(placement) {
					return
				}
			}
		}
	}
}

// Of returns the placement of an ask, or nil.
func (p Placements) Of(id RequestID) *Placement {
	if len(p.leaves) == 0 {
		return nil
	}
	leaf := p.leaves[p.leaf(id)]
	if i, known := inLeaf(leaf, id); known {
		return leaf[i]
	}
	return nil
}

// Renew returns placements in which each changed ask has the placement that now
// says, or none where that is nil. It costs the leaves with a change and one
// word or so for each other. It puts changed in order.
func (p Placements) Renew(changed []RequestID, now func(RequestID) *Placement) Placements {
	slices.Sort(changed)
	changed = slices.Compact(changed)
	if len(changed) == 0 {
		return p
	}
	next := Placements{leaves: make([][]*Placement, 0, len(p.leaves)+len(changed)/leafSize+1), count: p.count}
	done := 0
	for len(changed) > 0 {
		at, end := 0, len(changed)
		var old []*Placement
		if len(p.leaves) > 0 {
			at = p.leaf(changed[0])
			old = p.leaves[at]
			if at+1 < len(p.leaves) {
				end, _ = slices.BinarySearch(changed, p.leaves[at+1][0].Ask.ID)
			}
			next.leaves = append(next.leaves, p.leaves[done:at]...)
			done = at + 1
		}
		fresh := merge(old, changed[:end], now)
		next.count += len(fresh) - len(old)
		next.add(fresh)
		changed = changed[end:]
	}
	next.leaves = append(next.leaves, p.leaves[done:]...)
	if len(next.leaves) == 0 {
		return Placements{}
	}
	return next
}

// leaf is the row of the leaf that an ask is in, or would be. There is one.
func (p Placements) leaf(id RequestID) int {
	after, _ := slices.BinarySearchFunc(p.leaves, id, func(leaf []*Placement, id RequestID) int {
		if leaf[0].Ask.ID <= id {
			return -1
		}
		return 1
	})
	return max(0, after-1)
}

// merge is a leaf, of any size, in which the changed asks have what now says.
func merge(old []*Placement, changed []RequestID, now func(RequestID) *Placement) []*Placement {
	fresh := make([]*Placement, 0, len(old)+len(changed))
	for _, id := range changed {
		i, known := inLeaf(old, id)
		fresh = append(fresh, old[:i]...)
		if known {
			i++
		}
		old = old[i:]
		if placement := now(id); placement != nil {
			fresh = append(fresh, placement)
		}
	}
	return append(fresh, old...)
}

// add ends with a list, in leaves of the right size: what would be a small leaf
// goes into the one before if both fit, so that leaves do not become many as
// placements come and go.
func (p *Placements) add(fresh []*Placement) {
	if last := len(p.leaves) - 1; last >= 0 && len(fresh) < leafSize/4 && len(p.leaves[last])+len(fresh) <= leafSize {
		p.leaves[last] = slices.Concat(p.leaves[last], fresh)
		return
	}
	for left := (len(fresh) + leafSize - 1) / leafSize; left > 0; left-- {
		end := len(fresh) / left // all alike, so that each can grow
		p.leaves = append(p.leaves, fresh[:end:end])
		fresh = fresh[end:]
	}
}

func inLeaf(leaf []*Placement, id RequestID) (int, bool) {
	return slices.BinarySearchFunc(leaf, id, func(p *Placement, id RequestID) int { return cmp.Compare(p.Ask.ID, id) })
}

// MarshalJSON writes a list.
func (p Placements) MarshalJSON() ([]byte, error) {
	return json.Marshal(slices.Collect(p.All()))
}

// UnmarshalJSON reads a list.
func (p *Placements) UnmarshalJSON(data []byte) error {
	var list []Placement
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	*p = PlacementsOf(list...)
	return nil
}
