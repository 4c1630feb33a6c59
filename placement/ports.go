package placement

import (
	"slices"
	"strconv"

	"github.com/psgrid/psg"
)

const (
	maxPort            = 65535
	firstDynamicPort   = 20000
	lastDynamicPort    = 32000
	defaultHostNetwork = "default"
)

// portKey is one static port of one host network of a node.
type portKey struct {
	network string
	port    int
}

// ports are the ports of one node. Static ones are held by identity; dynamic
// ones are chosen by the orchestrator and only counted.
type ports struct {
	kept    map[int]bool                // by the host, on every network
	holders map[portKey][]psg.RequestID // sorted; several only where collisions are ignored
	first   int
	last    int
	dynamic int // dynamic ports not yet held
}

func newPorts(n *psg.Node) ports {
	p := ports{kept: make(map[int]bool), holders: make(map[portKey][]psg.RequestID)}
	p.first, p.last = n.DynamicPorts.Min, n.DynamicPorts.Max
	if p.first == 0 && p.last == 0 {
		p.first, p.last = firstDynamicPort, lastDynamicPort
	}
	p.dynamic = p.last - p.first + 1
	for _, port := range n.StaticPorts {
		if !p.kept[port] {
			p.kept[port] = true
			p.dynamic -= p.inDynamicRange(port)
		}
	}
	return p
}

// inDynamicRange is 1 for a port that dynamic allocation could have used.
func (p *ports) inDynamicRange(port int) int {
	if port >= p.first && port <= p.last {
		return 1
	}
	return 0
}

func (p *ports) take(id psg.RequestID, held []psg.PortShare, dynamic int) {
	for _, share := range held {
		key := portKey{share.Host, share.Port}
		list := p.holders[key]
		at, found := slices.BinarySearch(list, id)
		if found {
			continue
		}
		if len(list) == 0 && !p.kept[share.Port] {
			p.dynamic -= p.inDynamicRange(share.Port)
		}
		p.holders[key] = slices.Insert(list, at, id)
	}
	p.dynamic -= dynamic
}

func (p *ports) give(id psg.RequestID, held []psg.PortShare, dynamic int) {
	for _, share := range held {
		key := portKey{share.Host, share.Port}
		list := p.holders[key]
		at, found := slices.BinarySearch(list, id)
		if !found {
			continue
		}
		if list = slices.Delete(list, at, at+1); len(list) > 0 {
			p.holders[key] = list
			continue
		}
		delete(p.holders, key)
		if !p.kept[share.Port] {
			p.dynamic += p.inDynamicRange(share.Port)
		}
	}
	p.dynamic += dynamic
}

// portPlan is a workload's port asks, read once.
type portPlan struct {
	static  []psg.PortAsk
	network []reference // of each static port
	dynamic int
}

func planPorts(asks []psg.PortAsk) portPlan {
	var plan portPlan
	for _, ask := range asks {
		if ask.Static == 0 {
			plan.dynamic++
			continue
		}
		plan.static = append(plan.static, ask)
		plan.network = append(plan.network, parseReference(ask.HostNetwork))
	}
	return plan
}

// shares are the ports the plan would hold on a node.
func (plan *portPlan) shares(n *psg.Node) []psg.PortShare {
	shares := make([]psg.PortShare, 0, len(plan.static))
	for i, ask := range plan.static {
		network, _ := plan.network[i].on(n)
		if network == "" {
			network = defaultHostNetwork
		}
		shares = append(shares, psg.PortShare{Label: ask.Label, Port: ask.Static, Host: network})
	}
	if len(shares) == 0 {
		return nil
	}
	return shares
}

// fits reports whether every port of the plan can be had.
func (plan *portPlan) fits(n *node) bool {
	if plan.dynamic == 0 && len(plan.static) == 0 {
		return true
	}
	o := objections{mode: verdictOnly}
	plan.object(n, &o)
	return !o.raised
}

// object raises which ports can't be had on a node, and who has them.
func (plan *portPlan) object(n *node, o *objections) {
	own := make(map[portKey]bool)
	taken := 0
	for i, share := range plan.shares(&n.spec) {
		if plan.static[i].IgnoreCollision {
			continue
		}
		key := portKey{share.Host, share.Port}
		switch holders := n.ports.holders[key]; {
		case own[key]:
			o.raise("port", "%d is asked for twice by the workload itself", share.Port)
		case n.ports.kept[share.Port]:
			o.seen("port", portTaken(share.Port), " on "+n.name()+": the host keeps it")
		case len(holders) > 0:
			o.short("port", portTaken(share.Port), 1000, " on %s by %s", n.name(), n.holderName(holders[0]))
		default:
			taken += n.ports.inDynamicRange(share.Port)
		}
		own[key] = true
	}
	if short := plan.dynamic + taken - n.ports.dynamic; plan.dynamic > 0 && short > 0 {
		o.short("port", "dynamic ports", 1000*int64(short)/int64(plan.dynamic), " short by %d", short)
	}
}

func portTaken(port int) string { return strconv.Itoa(port) + " is taken" }
