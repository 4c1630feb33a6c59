package search

// model is a problem laid out for speed: rows of matrices one after the other.
//
// Load and balance are one thing here: a term with a weight, an excess per node
// and a size per item, which costs weight times the excess that is above zero.
// For load the excess is use less the safe level; for a balance it is what the
// second resource lacks, and an item's size is what it takes of the second less
// Target times what it takes of the first.
type model struct {
	p            *Problem
	nodes, items int
	resources    int
	terms        int
	weight       []int64 // by term
	size         []int64 // item x term
	need         []int64 // item x resource
	lasting      []int64 // item x resource: need, without what is transient
	home         []int32 // by item
	group        []int32 // by item
	moveCost     []int64 // by item, weighted
	nodeMove     []int64 // node x node, weighted
	hood, loc    []int32 // by node
	hoods, locs  int
	rules        []rule    // by group
	members      [][]int32 // by group: its items
	residents    [][]int32 // by neighbourhood: its nodes
}

// rule is a group's, with the groups that must stay near it besides.
type rule struct {
	apart    bool
	least    int32
	near     []int32
	nearThis []int32
}

// dependent reports whether a group must be near another, or another near it.
func (r *rule) dependent() bool { return len(r.near)+len(r.nearThis) > 0 }

func newModel(p *Problem) *model {
	m := &model{p: p, nodes: len(p.Nodes), items: len(p.Items), resources: len(p.Resources)}
	for _, r := range p.Resources {
		m.weight = append(m.weight, r.Weight)
	}
	for _, b := range p.Balances {
		m.weight = append(m.weight, b.Weight)
	}
	m.terms = len(m.weight)
	m.addItems()
	m.addNodes()
	m.rules, m.members, m.residents = make([]rule, len(p.Groups)), make([][]int32, len(p.Groups)), make([][]int32, m.hoods)
	for i, g := range m.group {
		m.members[g] = append(m.members[g], int32(i))
	}
	for i, hood := range m.hood {
		m.residents[hood] = append(m.residents[hood], int32(i))
	}
	for g, group := range p.Groups {
		m.rules[g].apart, m.rules[g].least = group.Apart, int32(group.MinLocations)
		for _, near := range group.Near {
			if near != g {
				m.rules[g].near = append(m.rules[g].near, int32(near))
				m.rules[near].nearThis = append(m.rules[near].nearThis, int32(g))
			}
		}
	}
	return m
}

func (m *model) addItems() {
	for i, item := range m.p.Items {
		m.home = append(m.home, int32(m.p.Initial[i]))
		m.group = append(m.group, int32(item.Group))
		m.moveCost = append(m.moveCost, m.p.Weights.Item*item.MoveCost)
		m.need = append(m.need, item.Need...)
		m.size = append(m.size, item.Need...)
		for _, b := range m.p.Balances {
			m.size = append(m.size, item.Need[b.Second]-b.Target*item.Need[b.First])
		}
		for r, q := range item.Need {
			if m.p.Resources[r].Transient {
				q = 0
			}
			m.lasting = append(m.lasting, q)
		}
	}
}

func (m *model) addNodes() {
	m.nodeMove = make([]int64, m.nodes*m.nodes)
	for i, n := range m.p.Nodes {
		m.hood, m.loc = append(m.hood, int32(n.Hood)), append(m.loc, int32(n.Location))
		m.hoods, m.locs = max(m.hoods, n.Hood+1), max(m.locs, n.Location+1)
		for to, c := range n.MoveCost {
			m.nodeMove[i*m.nodes+to] = m.p.Weights.Node * c
		}
	}
}

// sizes is an item's row of the terms.
func (m *model) sizes(item int) []int64 {
	return m.size[item*m.terms : (item+1)*m.terms]
}

// holds is what an item takes of a node by being there, beyond what it holds
// there in any case.
func (m *model) holds(item, node int) []int64 {
	if int(m.home[item]) == node {
		return m.lasting[item*m.resources : (item+1)*m.resources]
	}
	return m.need[item*m.resources : (item+1)*m.resources]
}

// moveTo is what it costs that an item is on a node, its group's part apart.
func (m *model) moveTo(item, node int) int64 {
	home := int(m.home[item])
	if home == node {
		return 0
	}
	return m.moveCost[item] + m.nodeMove[home*m.nodes+node]
}
