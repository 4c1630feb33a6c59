package shim

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

// PSG tells Nomad's scheduler where it wants a group's instances by three
// entries, the last of their lists in the group:
//
//	constraint { attribute = "${node.class}"  operator = "!="  value = "psg-steer-v1" }
//	affinity   { attribute = "${node.unique.id}"  operator = "set_contains_any"  value = "ID,ID"  weight = 100 }
//	spread     { attribute = "${node.unique.id}"  weight = 100  target "ID" { percent = 60 } … }
//
// The constraint is true on every node: it marks the group as steered, so that
// its affinity and spread are known for PSG's and not the user's; another value
// says that there is no spread of PSG's. All three
// change in place, without a restart of any task, and are soft: when a planned
// node is lost, Nomad starts the work elsewhere by itself.
const (
	nodeID        = "${node.unique.id}"
	markAttribute = "${node.class}"
	markValue     = "psg-steer-v1"
	markAttracts  = "psg-steer-v1-affinity" // without a spread
	hintWeight    = 100
	maxTargets    = 100 // a target is at least one percent
)

// Steer returns the job with the hints of the groups named in place of whatever
// PSG hinted there before; other groups stay as they are. A group with an empty
// hint is no longer steered, and a shift of a group that is named ends. The job
// itself is not changed. Jobs of a type that
// runs everywhere cannot be steered and are returned without hints.
func Steer(job *api.Job, hints map[string]psg.Hint) *api.Job {
	steered := *job
	steered.TaskGroups = slices.Clone(job.TaskGroups)
	for i, g := range steered.TaskGroups {
		if g == nil {
			continue
		}
		if hint, named := hints[text(g.Name)]; named {
			steered.TaskGroups[i] = hinted(stripped(g), normal(hint), steerable(job) && !spreadsOverNodes(job.Spreads))
		}
	}
	return &steered
}

// Strip returns the job without anything that Steer has added, and without
// changing the job itself: Strip(Steer(j, h)) is j, for any j not steered yet.
func Strip(job *api.Job) *api.Job {
	if job == nil || !Steered(job) {
		return job
	}
	bare := *job
	bare.TaskGroups = slices.Clone(job.TaskGroups)
	for i, g := range bare.TaskGroups {
		if g != nil {
			bare.TaskGroups[i] = stripped(g)
		}
	}
	return &bare
}

// Steered reports whether PSG steers any group of the job.
func Steered(job *api.Job) bool {
	return slices.ContainsFunc(job.TaskGroups, func(g *api.TaskGroup) bool { return g != nil && (marked(g) >= 0 || shiftMarked(g)) })
}

func shiftMarked(g *api.TaskGroup) bool { at, _, _ := shiftOf(g); return at >= 0 }

// steerable reports whether Nomad takes affinities and spreads from the job.
func steerable(job *api.Job) bool {
	kind := cmp.Or(text(job.Type), api.JobTypeService)
	return kind == api.JobTypeService || kind == api.JobTypeBatch
}

// normal is a hint without its zeros.
func normal(hint psg.Hint) psg.Hint {
	kept := maps.Clone(hint)
	maps.DeleteFunc(kept, func(_ psg.NodeID, n int) bool { return n <= 0 })
	return kept
}

// hinted adds a hint to a bare group. Nomad keeps one spread for each
// attribute: where the user spreads over nodes already, the affinity is all
// that is added.
func hinted(g *api.TaskGroup, hint psg.Hint, able bool) *api.TaskGroup {
	if len(hint) == 0 || !able {
		return g
	}
	out := *g
	nodes := slices.Sorted(maps.Keys(hint))
	mark := markAttracts
	if len(nodes) <= maxTargets && !spreadsOverNodes(g.Spreads) {
		mark = markValue
		out.Spreads = append(slices.Clip(g.Spreads), api.NewSpread(nodeID, hintWeight, targets(nodes, hint)))
	}
	out.Constraints = append(slices.Clip(g.Constraints), api.NewConstraint(markAttribute, string(psg.NotEqual), mark))
	out.Affinities = append(slices.Clip(g.Affinities), api.NewAffinity(nodeID, api.ConstraintSetContainsAny, joined(nodes), hintWeight))
	return &out
}

func joined(nodes []psg.NodeID) string {
	ids := make([]string, len(nodes))
	for i, node := range nodes {
		ids[i] = string(node)
	}
	return strings.Join(ids, ",")
}

func spreadsOverNodes(spreads []*api.Spread) bool {
	return slices.ContainsFunc(spreads, func(s *api.Spread) bool { return s != nil && s.Attribute == nodeID })
}

// targets are the shares of a hint in percent, which add up to 100: the largest
// remainders are rounded up, the smaller ID first, and no node gets nothing.
func targets(nodes []psg.NodeID, hint psg.Hint) []*api.SpreadTarget {
	total := 0
	for _, n := range hint {
		total += n
	}
	shares, left := make([]int, len(nodes)), 100
	for i, node := range nodes {
		shares[i] = max(1, 100*hint[node]/total)
		left -= shares[i]
	}
	order := make([]int, len(nodes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(100*hint[nodes[b]]%total, 100*hint[nodes[a]]%total)
	})
	for i := 0; left > 0; i++ {
		shares[order[i%len(order)]]++
		left--
	}
	for ; left < 0; left++ { // what the smallest were given beyond their share
		shares[slices.Index(shares, slices.Max(shares))]--
	}
	out := make([]*api.SpreadTarget, len(nodes))
	for i, node := range nodes {
		out[i] = &api.SpreadTarget{Value: string(node), Percent: uint8(shares[i])}
	}
	return out
}

// marked is the index of the group's mark, -1 without one.
func marked(g *api.TaskGroup) int {
	for i, c := range slices.Backward(g.Constraints) {
		if c != nil && c.LTarget == markAttribute && (c.RTarget == markValue || c.RTarget == markAttracts) && operator(c.Operand) == psg.NotEqual {
			return i
		}
	}
	return -1
}

// stripped is the group without PSG's entries. Where the user has written the
// like, PSG's is the last.
func stripped(g *api.TaskGroup) *api.TaskGroup {
	g = unshifted(g)
	mark := marked(g)
	if mark < 0 {
		return g
	}
	out := *g
	out.Constraints = without(g.Constraints, mark)
	var nodes string
	for i, a := range slices.Backward(g.Affinities) {
		if a != nil && a.LTarget == nodeID && a.Operand == api.ConstraintSetContainsAny && a.Weight != nil && *a.Weight == hintWeight {
			out.Affinities, nodes = without(g.Affinities, i), a.RTarget
			break
		}
	}
	if g.Constraints[mark].RTarget == markAttracts {
		return &out
	}
	for i, s := range slices.Backward(g.Spreads) {
		if s != nil && s.Attribute == nodeID && targetIDs(s) == nodes {
			out.Spreads = without(g.Spreads, i)
			break
		}
	}
	return &out
}

func targetIDs(s *api.Spread) string {
	ids := make([]string, len(s.SpreadTarget))
	for i, target := range s.SpreadTarget {
		if target != nil {
			ids[i] = target.Value
		}
	}
	return strings.Join(ids, ",")
}

// without is the list without one entry, nil when nothing is left; the list
// itself is not changed.
func without[T any](list []T, i int) []T {
	if len(list) == 1 {
		return nil
	}
	return slices.Concat(list[:i], list[i+1:])
}

// hintsTo reports whether a group of the job is hinted to any of the nodes.
func hintsTo(job *api.Job, nodes []psg.NodeID) bool {
	return slices.ContainsFunc(job.TaskGroups, func(g *api.TaskGroup) bool {
		if g == nil || marked(g) < 0 {
			return false
		}
		bare := stripped(g)
		for _, a := range g.Affinities[len(bare.Affinities):] {
			if a == nil {
				continue
			}
			for id := range strings.SplitSeq(a.RTarget, ",") {
				if slices.Contains(nodes, psg.NodeID(id)) {
					return true
				}
			}
		}
		return false
	})
}
