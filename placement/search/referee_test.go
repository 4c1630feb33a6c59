package search

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// referee reads the challenge's definition once more, and shares no code with the
// package: what an assignment costs, and which kinds of rules it breaks.
func referee(p *Problem, at []int) (cost int64, broken map[string]bool) {
	broken = map[string]bool{}
	free := func(node, resource int) int64 { // what is left of a node's capacity
		left := p.Nodes[node].Capacity[resource]
		for i, item := range p.Items {
			if at[i] == node {
				left -= item.Need[resource]
			}
		}
		return left
	}
	for n, node := range p.Nodes {
		for r, resource := range p.Resources {
			left := free(n, r)
			cost += resource.Weight * max(0, node.Capacity[r]-left-node.Safe[r])
			for i, item := range p.Items {
				if resource.Transient && p.Initial[i] == n && at[i] != n {
					left -= item.Need[r]
				}
			}
			if left < 0 {
				broken[map[bool]string{false: "capacity", true: "transient"}[resource.Transient]] = true
			}
		}
		for _, b := range p.Balances {
			cost += b.Weight * max(0, b.Target*free(n, b.First)-free(n, b.Second))
		}
	}
	most := 0
	for g, group := range p.Groups {
		moved, places := 0, map[int]int{}
		for i, item := range p.Items {
			if item.Group != g {
				continue
			}
			if from := p.Initial[i]; from != at[i] {
				moved++
				cost += p.Weights.Item * item.MoveCost
				if p.Nodes[from].MoveCost != nil {
					cost += p.Weights.Node * p.Nodes[from].MoveCost[at[i]]
				}
			}
			places[p.Nodes[at[i]].Location]++
			for j, other := range p.Items[:i] {
				if group.Apart && other.Group == g && at[j] == at[i] {
					broken["conflict"] = true
				}
			}
			for _, near := range group.Near {
				if !slices.ContainsFunc(p.Items, p.among(near, p.Nodes[at[i]].Hood, at)) {
					broken["dependency"] = true
				}
			}
		}
		most = max(most, moved)
		if len(places) < group.MinLocations {
			broken["spread"] = true
		}
	}
	return cost + p.Weights.Group*int64(most), broken
}

// among reports of the items, asked in their order, whether one is of a group and
// in a neighbourhood.
func (p *Problem) among(group, hood int, at []int) func(Item) bool {
	i := -1
	return func(item Item) bool {
		i++
		return item.Group == group && p.Nodes[at[i]].Hood == hood
	}
}

// anyProblem is wider than randomProblem: any number of resources, also none, costs
// and weights of nothing, groups that must be near each other in circles, and little
// room.
func anyProblem(r *rand.Rand, nodes, items int) Problem {
	p := Problem{Weights: Weights{Item: r.Int64N(3), Group: r.Int64N(5), Node: r.Int64N(3)}}
	for range min(3, r.IntN(8)) {
		p.Resources = append(p.Resources, Resource{Transient: r.IntN(2) == 0, Weight: r.Int64N(9)})
	}
	for range nodes {
		n := Node{Hood: r.IntN(nodes), Location: r.IntN(nodes)}
		for range p.Resources {
			n.Capacity, n.Safe = append(n.Capacity, r.Int64N(30)), append(n.Safe, r.Int64N(20))
		}
		for to := range nodes {
			if r.IntN(3) > 0 && len(n.MoveCost) == to {
				n.MoveCost = append(n.MoveCost, r.Int64N(5))
			}
		}
		if len(n.MoveCost) < nodes {
			n.MoveCost = nil
		}
		p.Nodes = append(p.Nodes, n)
	}
	if len(p.Resources) > 0 {
		for range r.IntN(3) {
			p.Balances = append(p.Balances, Balance{r.IntN(len(p.Resources)), r.IntN(len(p.Resources)), r.Int64N(4), r.Int64N(6)})
		}
	}
	groups := 1 + r.IntN(items)
	p.Groups = make([]Group, groups)
	for range items {
		item := Item{Group: r.IntN(groups), MoveCost: r.Int64N(5)}
		for range p.Resources {
			item.Need = append(item.Need, r.Int64N(12))
		}
		p.Items, p.Initial = append(p.Items, item), append(p.Initial, r.IntN(nodes))
	}
	p.makeRoom()
	for g := range p.Groups {
		for _, rule := range []Group{{Apart: true}, {MinLocations: 2}, {Near: []int{r.IntN(groups)}}, {Near: []int{r.IntN(groups)}}} {
			imposeIfKept(&p, g, rule)
		}
	}
	return p
}

// makeRoom gives each node room for what is there, and every other a little more.
func (p *Problem) makeRoom() {
	for m, used := range p.used(p.Initial) {
		for r, u := range used {
			p.Nodes[m].Capacity[r] = max(p.Nodes[m].Capacity[r], u) + int64(10*(m%2))
		}
	}
}

// TestSolve_IsWhatTheRefereeSays has the referee look at all assignments of small
// problems: what Solve finds breaks no rule, costs what it says, and nothing costs
// less.
func TestSolve_IsWhatTheRefereeSays(t *testing.T) {
	rand := rand.New(rand.NewPCG(11, 12))
	rules, moved := map[string]int{}, 0
	for seed := range uint64(100) {
		p := anyProblem(rand, 1+rand.IntN(4), 1+rand.IntN(6))
		best := int64(-1)
		seen := map[string]bool{}
		everyAssignment(&p, func(at []int) {
			cost, broken := referee(&p, at)
			if is := p.Check(at) == nil; is != (len(broken) == 0) || is && cost != p.Cost(at).Total() {
				t.Fatalf("%v of %+v: referee %d %v, Check %v, Cost %d", at, p, cost, broken, p.Check(at), p.Cost(at).Total())
			}
			if len(broken) == 0 && (best < 0 || cost < best) {
				best = cost
			}
			maps.Copy(seen, broken)
		})
		for rule := range seen {
			rules[rule]++
		}
		reached := false
		for _, near := range []bool{false, true} { // as the two threads of psg simulate roadef
			got, err := Solve(p, Options{Seed: seed, Near: near, Steps: 50_000})
			if err != nil {
				t.Fatal(err)
			}
			if cost, broken := referee(&p, got.Assignment); len(broken) > 0 || cost != got.Cost.Total() {
				t.Fatalf("near %t: cost %d, referee %d %v of %+v", near, got.Cost.Total(), cost, broken, p)
			}
			reached = reached || got.Cost.Total() == best
			if near && !slices.Equal(got.Assignment, p.Initial) {
				moved++
			}
		}
		if !reached {
			t.Errorf("optimum %d not reached of %+v", best, p)
		}
	}
	for _, rule := range []string{"capacity", "transient", "conflict", "spread", "dependency"} {
		if rules[rule] < 15 {
			t.Errorf("%s matters in %d problems: the test shows little of it", rule, rules[rule])
		}
	}
	if moved < 40 {
		t.Errorf("%d moved: the test shows little", moved)
	}
}

// TestSolve_OfManyItemsBreaksNoRule is about problems of which nobody knows the
// optimum.
func TestSolve_OfManyItemsBreaksNoRule(t *testing.T) {
	rand := rand.New(rand.NewPCG(13, 14))
	better := 0
	for seed := range uint64(60) {
		p := anyProblem(rand, 2+rand.IntN(8), 10+rand.IntN(50))
		before, _ := referee(&p, p.Initial)
		got, err := Solve(p, Options{Seed: seed, Near: seed%2 == 0, Steps: 50_000})
		if err != nil {
			t.Fatal(err)
		}
		cost, broken := referee(&p, got.Assignment)
		if len(broken) > 0 || cost != got.Cost.Total() || cost > before {
			t.Errorf("cost %d, referee %d %v, before %d of %+v", got.Cost.Total(), cost, broken, before, p)
		}
		if cost < before {
			better++
		}
	}
	if better < 15 {
		t.Errorf("%d better than before: the test shows little", better)
	}
}
