package search

import (
	"fmt"
)

// Cost is what an assignment costs, weighted, in its parts.
type Cost struct {
	Load      int64
	Balance   int64
	ItemMove  int64
	GroupMove int64
	NodeMove  int64
}

// Total is the sum that the search makes small.
func (c Cost) Total() int64 {
	return c.Load + c.Balance + c.ItemMove + c.GroupMove + c.NodeMove
}

// Cost counts an assignment from scratch, as its definition says.
func (p *Problem) Cost(at []int) Cost {
	var c Cost
	used := p.used(at)
	for m, n := range p.Nodes {
		for r, res := range p.Resources {
			c.Load += res.Weight * max(0, used[m][r]-n.Safe[r])
		}
		for _, b := range p.Balances {
			first, second := n.Capacity[b.First]-used[m][b.First], n.Capacity[b.Second]-used[m][b.Second]
			c.Balance += b.Weight * max(0, b.Target*first-second)
		}
	}
	moved := make([]int64, len(p.Groups))
	var most int64
	for i, item := range p.Items {
		from, to := p.Initial[i], at[i]
		if from == to {
			continue
		}
		c.ItemMove += p.Weights.Item * item.MoveCost
		if costs := p.Nodes[from].MoveCost; costs != nil {
			c.NodeMove += p.Weights.Node * costs[to]
		}
		moved[item.Group]++
		most = max(most, moved[item.Group])
	}
	c.GroupMove = p.Weights.Group * most
	return c
}

// used is the use of each node, by resource.
func (p *Problem) used(at []int) [][]int64 {
	used := make([][]int64, len(p.Nodes))
	for m := range used {
		used[m] = make([]int64, len(p.Resources))
	}
	for i, item := range p.Items {
		for r, q := range item.Need {
			used[at[i]][r] += q
		}
	}
	return used
}

// Check names the first rule that an assignment breaks.
func (p *Problem) Check(at []int) error {
	if len(at) != len(p.Items) {
		return fmt.Errorf("%d nodes for %d items", len(at), len(p.Items))
	}
	for i, m := range at {
		if m < 0 || m >= len(p.Nodes) {
			return fmt.Errorf("item %d: node %d of %d", i, m, len(p.Nodes))
		}
	}
	if err := p.checkCapacity(at); err != nil {
		return err
	}
	members := make([][]int, len(p.Groups))
	for i, item := range p.Items {
		members[item.Group] = append(members[item.Group], at[i])
	}
	for g := range p.Groups {
		if err := p.checkGroup(g, members); err != nil {
			return fmt.Errorf("group %d: %w", g, err)
		}
	}
	return nil
}

func (p *Problem) checkCapacity(at []int) error {
	held := p.used(at)
	for i, item := range p.Items {
		if home := p.Initial[i]; home != at[i] {
			for r, q := range item.Need {
				if p.Resources[r].Transient {
					held[home][r] += q
				}
			}
		}
	}
	for m, n := range p.Nodes {
		for r, c := range n.Capacity {
			if held[m][r] > c {
				return fmt.Errorf("node %d holds %d of resource %d, capacity %d", m, held[m][r], r, c)
			}
		}
	}
	return nil
}

// checkGroup judges one group; members are the nodes of each group's items.
func (p *Problem) checkGroup(g int, members [][]int) error {
	nodes, locations := make(map[int]bool), make(map[int]bool)
	for _, m := range members[g] {
		if p.Groups[g].Apart && nodes[m] {
			return fmt.Errorf("two items on node %d", m)
		}
		nodes[m], locations[p.Nodes[m].Location] = true, true
	}
	if least := p.Groups[g].MinLocations; len(locations) < least {
		return fmt.Errorf("in %d locations, must be in %d", len(locations), least)
	}
	for _, near := range p.Groups[g].Near {
		hoods := make(map[int]bool)
		for _, m := range members[near] {
			hoods[p.Nodes[m].Hood] = true
		}
		for _, m := range members[g] {
			if hood := p.Nodes[m].Hood; !hoods[hood] {
				return fmt.Errorf("nothing of group %d in neighbourhood %d", near, hood)
			}
		}
	}
	return nil
}
