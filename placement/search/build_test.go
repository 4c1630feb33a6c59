package search

import (
	"math/rand/v2"
	"slices"
)

// plain is a problem of equal nodes, each its own neighbourhood and location,
// with one resource; items are in groups of their own.
func plain(nodes int, capacity, safe int64, needs ...int64) Problem {
	p := Problem{Resources: []Resource{{Weight: 1}}, Weights: Weights{Item: 1, Group: 1, Node: 1}}
	for m := range nodes {
		p.Nodes = append(p.Nodes, Node{Hood: m, Location: m, Capacity: []int64{capacity}, Safe: []int64{safe}})
	}
	for i, need := range needs {
		p.Groups = append(p.Groups, Group{})
		p.Items = append(p.Items, Item{Group: i, Need: []int64{need}})
		p.Initial = append(p.Initial, 0)
	}
	return p
}

// randomProblem has every kind of rule and cost, and an initial assignment that
// breaks none.
func randomProblem(r *rand.Rand, nodes, items int) Problem {
	p := Problem{
		Resources: []Resource{{Weight: 3}, {Transient: true, Weight: 1}, {}},
		Balances:  []Balance{{First: 0, Second: 1, Target: 2, Weight: 5}},
		Weights:   Weights{Item: 1, Group: 7, Node: 2},
	}
	for range nodes {
		n := Node{Hood: r.IntN(2), Location: r.IntN(min(3, nodes))}
		for range p.Resources {
			n.Capacity = append(n.Capacity, 40+r.Int64N(40))
			n.Safe = append(n.Safe, r.Int64N(40))
		}
		for range nodes {
			n.MoveCost = append(n.MoveCost, r.Int64N(5))
		}
		p.Nodes = append(p.Nodes, n)
	}
	groups := max(2, items/3)
	p.Groups = make([]Group, groups)
	for i := range items {
		item := Item{Group: i % groups, MoveCost: r.Int64N(5)}
		for range p.Resources {
			item.Need = append(item.Need, r.Int64N(12))
		}
		p.Items = append(p.Items, item)
		p.Initial = append(p.Initial, r.IntN(nodes))
	}
	for m, used := range p.used(p.Initial) {
		for r, u := range used {
			p.Nodes[m].Capacity[r] = max(p.Nodes[m].Capacity[r], u)
		}
	}
	for g := range p.Groups {
		for _, rule := range []Group{{Apart: true}, {MinLocations: 3}, {MinLocations: 2}, {Near: []int{r.IntN(groups)}}} {
			imposeIfKept(&p, g, rule)
		}
	}
	return p
}

// imposeIfKept adds a rule to a group if the initial assignment keeps it.
func imposeIfKept(p *Problem, g int, rule Group) {
	before := p.Groups[g]
	p.Groups[g].Apart = before.Apart || rule.Apart
	p.Groups[g].MinLocations = max(before.MinLocations, rule.MinLocations)
	p.Groups[g].Near = append(slices.Clone(before.Near), rule.Near...)
	if p.Check(p.Initial) != nil {
		p.Groups[g] = before
	}
}

// bruteForce is the least cost of all assignments that break no rule.
func bruteForce(p *Problem) int64 {
	best := p.Cost(p.Initial).Total()
	everyAssignment(p, func(at []int) {
		if p.Check(at) == nil {
			best = min(best, p.Cost(at).Total())
		}
	})
	return best
}

// everyAssignment shows all there are, in one list that changes.
func everyAssignment(p *Problem, show func(at []int)) {
	at := make([]int, len(p.Items))
	for {
		show(at)
		i := 0
		for ; i < len(at); i++ {
			if at[i]++; at[i] < len(p.Nodes) {
				break
			}
			at[i] = 0
		}
		if i == len(at) {
			return
		}
	}
}
