package psg

import (
	"cmp"
	"encoding/json"
	"errors"
	"iter"
	"slices"
)

// leafSize is how many items a leaf has at most. Small leaves are cheap to
// replace, large ones are few: 128 suits hundreds of thousands.
const leafSize = 128

// Placements are placements in the order of their asks' IDs, one for each ask.
type Placements = ByAsk[Placement, *Placement]

// Statuses are where asks stand, in the order of the asks' IDs.
type Statuses = ByAsk[AskStatus, *AskStatus]

// PlacementsOf returns placements in their order. Of several for one ask the
// last stays.
func PlacementsOf(list ...Placement) Placements {
	items := make([]*Placement, len(list))
	for i := range list {
		p := list[i]
		items[i] = &p
	}
	return byAsk(items)
}

// ByAsk are items of asks, in the order of the asks' IDs, at most one for each.
// They are immutable: Renew returns others, which share what has not changed.
// What they point to is shared with whoever made them and must not be changed.
// The zero value holds none.
type ByAsk[T any, P ofAsk[T]] struct {
	leaves [][]P // none empty, none over leafSize
	count  int
}

// ofAsk is a pointer to what belongs to one ask.
type ofAsk[T any] interface {
	*T
	ask() RequestID
}

func (p *Placement) ask() RequestID { return p.Ask.ID }

func (s *AskStatus) ask() RequestID { return s.Ask.ID }

func byAsk[T any, P ofAsk[T]](items []P) ByAsk[T, P] {
	last := make(map[RequestID]P, len(items))
	ids := make([]RequestID, len(items))
	for i, item := range items {
		ids[i], last[item.ask()] = item.ask(), item
	}
	return ByAsk[T, P]{}.Renew(ids, func(id RequestID) P { return last[id] })
}

// Len is how many there are.
func (p ByAsk[T, P]) Len() int { return p.count }

// All goes through them in their order.
func (p ByAsk[T, P]) All() iter.Seq[P] {
	return func(yield func(P) bool) {
		for _, leaf := range p.leaves {
			for _, item := range leaf {
				if !yield(item) {
					return
				}
			}
		}
	}
}

// Of returns the item of an ask, or nil.
func (p ByAsk[T, P]) Of(id RequestID) P {
	if len(p.leaves) == 0 {
		return nil
	}
	leaf := p.leaves[p.leaf(id)]
	if i, known := inLeaf(leaf, id); known {
		return leaf[i]
	}
	return nil
}

// Renew returns items in which each changed ask has the one that now says, or
// none where that is nil. It costs the leaves with a change and one
// word or so for each other. It puts changed in order.
func (p ByAsk[T, P]) Renew(changed []RequestID, now func(RequestID) P) ByAsk[T, P] {
	slices.Sort(changed)
	changed = slices.Compact(changed)
	if len(changed) == 0 {
		return p
	}
	next := ByAsk[T, P]{leaves: make([][]P, 0, len(p.leaves)+len(changed)/leafSize+1), count: p.count}
	done := 0
	for len(changed) > 0 {
		at, end := 0, len(changed)
		var old []P
		if len(p.leaves) > 0 {
			at = p.leaf(changed[0])
			old = p.leaves[at]
			if at+1 < len(p.leaves) {
				end, _ = slices.BinarySearch(changed, p.leaves[at+1][0].ask())
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
		return ByAsk[T, P]{}
	}
	return next
}

// Since returns the items of an earlier one that are no longer there, and those
// that have come; one that was replaced is among both. It costs the leaves that
// the two do not share.
func (p ByAsk[T, P]) Since(before ByAsk[T, P]) (gone, come []P) {
	known := make(map[*P]bool, len(before.leaves)) // leaves of before, and whether they are shared
	for _, leaf := range before.leaves {
		known[&leaf[0]] = false
	}
	for _, leaf := range p.leaves {
		if _, shared := known[&leaf[0]]; shared {
			known[&leaf[0]] = true
		} else {
			come = append(come, leaf...)
		}
	}
	for _, leaf := range before.leaves {
		if !known[&leaf[0]] {
			gone = append(gone, leaf...)
		}
	}
	stayed := make(map[P]bool, len(gone))
	for _, item := range gone {
		stayed[item] = false
	}
	come = slices.DeleteFunc(come, func(item P) bool {
		_, known := stayed[item]
		stayed[item] = known
		return known
	})
	gone = slices.DeleteFunc(gone, func(item P) bool { return stayed[item] })
	return gone, come
}

// leaf is the row of the leaf that an ask is in, or would be. There is one.
func (p ByAsk[T, P]) leaf(id RequestID) int {
	after, _ := slices.BinarySearchFunc(p.leaves, id, func(leaf []P, id RequestID) int {
		if leaf[0].ask() <= id {
			return -1
		}
		return 1
	})
	return max(0, after-1)
}

// merge is a leaf, of any size, in which the changed asks have what now says.
func merge[T any, P ofAsk[T]](old []P, changed []RequestID, now func(RequestID) P) []P {
	fresh := make([]P, 0, len(old)+len(changed))
	for _, id := range changed {
		i, known := inLeaf(old, id)
		fresh = append(fresh, old[:i]...)
		if known {
			i++
		}
		old = old[i:]
		if item := now(id); item != nil {
			fresh = append(fresh, item)
		}
	}
	return append(fresh, old...)
}

// add ends with a list, in leaves of the right size: what would be a small leaf
// goes into the one before if both fit, so that leaves do not become many as
// items come and go.
func (p *ByAsk[T, P]) add(fresh []P) {
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

func inLeaf[T any, P ofAsk[T]](leaf []P, id RequestID) (int, bool) {
	return slices.BinarySearchFunc(leaf, id, func(item P, id RequestID) int { return cmp.Compare(item.ask(), id) })
}

// MarshalJSON writes a list.
func (p ByAsk[T, P]) MarshalJSON() ([]byte, error) {
	return json.Marshal(slices.Collect(p.All()))
}

// UnmarshalJSON reads a list.
func (p *ByAsk[T, P]) UnmarshalJSON(data []byte) error {
	var list []P
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	if slices.Contains(list, nil) {
		return errors.New("an item is null")
	}
	*p = byAsk(list)
	return nil
}
