package placement

import "math"

// unfit is the score of a slot that does not fit.
const unfit = math.MinInt64

// tree is a tournament over some slots: each inner node holds the better of
// its two children, the root the best of all. A changed score is played again
// up to where it no longer matters.
type tree struct {
	members []int32 // slots by leaf; nil where leaf i is slot i
	size    int     // leaves, a power of two
	winners []int32 // 1 is the root, size+i is leaf i; -1 where nothing fits
}

// newTree makes room for n leaves.
func newTree(n int, members []int32) tree {
	size := 1
	for size < n {
		size *= 2
	}
	return tree{members: members, size: size, winners: make([]int32, 2*size)}
}

// build plays all matches.
func (t *tree) build(n int, scores []int64, ranks []int32) {
	for leaf := range t.size {
		t.winners[t.size+leaf] = -1
		if leaf >= n {
			continue
		}
		slot := int32(leaf)
		if t.members != nil {
			slot = t.members[leaf]
		}
		if scores[slot] != unfit {
			t.winners[t.size+leaf] = slot
		}
	}
	for i := t.size - 1; i > 0; i-- {
		t.winners[i] = better(t.winners[2*i], t.winners[2*i+1], scores, ranks)
	}
}

// update plays the matches of one leaf again.
func (t *tree) update(leaf int, slot int32, scores []int64, ranks []int32) {
	at := t.size + leaf
	t.winners[at] = slot
	if scores[slot] == unfit {
		t.winners[at] = -1
	}
	for at /= 2; at > 0; at /= 2 {
		before := t.winners[at]
		now := better(t.winners[2*at], t.winners[2*at+1], scores, ranks)
		t.winners[at] = now
		if now == before && now != slot {
			return // neither who won here nor the winner's score has changed
		}
	}
}

// top is the best slot, or -1.
func (t *tree) top() int32 { return t.winners[1] }

// better compares two slots by score, then by rank.
func better(a, b int32, scores []int64, ranks []int32) int32 {
	switch {
	case a < 0:
		return b
	case b < 0:
		return a
	case scores[a] != scores[b]:
		if scores[a] > scores[b] {
			return a
		}
		return b
	case ranks[a] < ranks[b]:
		return a
	}
	return b
}
