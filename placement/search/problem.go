package search

import (
	"fmt"
	"math"
)

// MaxQuantity bounds every amount and cost in a problem.
const MaxQuantity = 1 << 48

// Problem is what to assign, to what, and what counts.
type Problem struct {
	Resources []Resource
	Nodes     []Node
	Groups    []Group
	Items     []Item
	Balances  []Balance
	Weights   Weights
	Initial   []int // node of each item; must break no rule
}

// Resource is one dimension of room.
type Resource struct {
	Transient bool  // an item that moves holds it on its first node too
	Weight    int64 // cost of each unit in use above Node.Safe
}

// Node is a place for items. Amounts are by resource.
type Node struct {
	Hood     int     // neighbourhood, for Group.Near; a small number from 0
	Location int     // for Group.MinLocations; a small number from 0
	Capacity []int64 // never exceeded
	Safe     []int64 // use above it costs
	MoveCost []int64 // by node: of an item that goes from here to there; nil means none
}

// Group is a set of items under common rules.
type Group struct {
	Apart        bool  // no two of its items on one node
	MinLocations int   // its items are in at least so many
	Near         []int // groups that have an item in each neighbourhood that this one has an item in
}

// Item is what is assigned.
type Item struct {
	Group    int
	Need     []int64 // by resource
	MoveCost int64   // of not being on its initial node
}

// Balance wants Target units of one resource free for each free unit of
// another: what Second lacks of Target times First costs Weight a unit, on each
// node.
type Balance struct {
	First, Second  int // resources
	Target, Weight int64
}

// Weights multiply the costs of moves.
type Weights struct {
	Item  int64 // the sum of Item.MoveCost
	Group int64 // the number of items moved in the group that has most of them
	Node  int64 // the sum of Node.MoveCost
}

// Validate says what is malformed, or which rule the initial assignment breaks.
func (p *Problem) Validate() error {
	for i, r := range p.Resources {
		if err := amounts("weight", r.Weight); err != nil {
			return fmt.Errorf("resource %d: %w", i, err)
		}
	}
	for i, n := range p.Nodes {
		if err := p.validateNode(n); err != nil {
			return fmt.Errorf("node %d: %w", i, err)
		}
	}
	for i, g := range p.Groups {
		for _, near := range g.Near {
			if near < 0 || near >= len(p.Groups) {
				return fmt.Errorf("group %d: near group %d of %d", i, near, len(p.Groups))
			}
		}
	}
	for i, item := range p.Items {
		if err := p.validateItem(item); err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
	}
	for i, b := range p.Balances {
		if min(b.First, b.Second) < 0 || max(b.First, b.Second) >= len(p.Resources) {
			return fmt.Errorf("balance %d: resources %d and %d of %d", i, b.First, b.Second, len(p.Resources))
		}
		if err := amounts("target or weight", b.Target, b.Weight); err != nil {
			return fmt.Errorf("balance %d: %w", i, err)
		}
	}
	if err := amounts("weight", p.Weights.Item, p.Weights.Group, p.Weights.Node); err != nil {
		return err
	}
	if p.ceiling() > math.MaxInt64/4 {
		return fmt.Errorf("costs and amounts are too large to be summed")
	}
	if err := p.Check(p.Initial); err != nil {
		return fmt.Errorf("initial assignment: %w", err)
	}
	return nil
}

func (p *Problem) validateNode(n Node) error {
	if len(n.Capacity) != len(p.Resources) || len(n.Safe) != len(p.Resources) {
		return fmt.Errorf("%d capacities and %d safe levels for %d resources", len(n.Capacity), len(n.Safe), len(p.Resources))
	}
	if n.MoveCost != nil && len(n.MoveCost) != len(p.Nodes) {
		return fmt.Errorf("%d move costs for %d nodes", len(n.MoveCost), len(p.Nodes))
	}
	if limit := len(p.Nodes); n.Hood < 0 || n.Hood >= limit || n.Location < 0 || n.Location >= limit {
		return fmt.Errorf("neighbourhood %d or location %d is not below the number of nodes", n.Hood, n.Location)
	}
	for _, list := range [][]int64{n.Capacity, n.Safe, n.MoveCost} {
		if err := amounts("capacity, safe level or move cost", list...); err != nil {
			return err
		}
	}
	return nil
}

func (p *Problem) validateItem(item Item) error {
	if item.Group < 0 || item.Group >= len(p.Groups) {
		return fmt.Errorf("group %d of %d", item.Group, len(p.Groups))
	}
	if len(item.Need) != len(p.Resources) {
		return fmt.Errorf("%d needs for %d resources", len(item.Need), len(p.Resources))
	}
	if err := amounts("need", item.Need...); err != nil {
		return err
	}
	return amounts("move cost", item.MoveCost)
}

func amounts(name string, list ...int64) error {
	for _, v := range list {
		if v < 0 || v > MaxQuantity {
			return fmt.Errorf("%s %d is not in 0..%d", name, v, int64(MaxQuantity))
		}
	}
	return nil
}

// ceiling is more than any sum that the search forms.
func (p *Problem) ceiling() float64 {
	var total, worstMove float64
	for _, n := range p.Nodes {
		for r, c := range n.Capacity {
			total += float64(c+n.Safe[r]) * float64(1+p.Resources[r].Weight)
		}
		for _, b := range p.Balances {
			total += float64(1+b.Weight) * (float64(b.Target)*float64(n.Capacity[b.First]) + float64(n.Capacity[b.Second]))
		}
		for _, c := range n.MoveCost {
			worstMove = max(worstMove, float64(c))
		}
	}
	for _, item := range p.Items {
		total += float64(p.Weights.Item)*float64(item.MoveCost) + float64(p.Weights.Node)*worstMove + float64(p.Weights.Group)
		for r, q := range item.Need {
			total += float64(q) * float64(1+p.Resources[r].Weight)
		}
		for _, b := range p.Balances {
			total += float64(1+b.Weight) * (float64(b.Target)*float64(item.Need[b.First]) + float64(item.Need[b.Second]))
		}
	}
	return total
}
