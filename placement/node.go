package placement

import (
	"github.com/psgrid/psg"
)

// node is one machine and what its placements leave of it.
type node struct {
	spec   psg.Node
	slot   int32  // its place in the engine's columns; kept until it goes
	fault  string // why its figures can't be trusted
	cards  []card
	free   []int64 // by card: shareable
	byID   map[psg.DeviceID]int
	ports  ports
	held   []*held // in no order
	limits []int   // instances under each of Config.Limits
}

// reset gives the node its figures as if it held nothing.
func (n *node) reset(spec psg.Node, limits int) {
	n.spec = spec
	n.fault = unusable(&n.spec)
	n.cards = newCards(n.spec.Devices)
	n.byID = make(map[psg.DeviceID]int, len(n.cards))
	n.free = make([]int64, len(n.cards))
	for i := range n.cards {
		n.byID[n.cards[i].spec.ID] = i
		n.free[i] = n.cards[i].shareable()
	}
	n.ports = newPorts(&n.spec)
	n.limits = make([]int, limits)
}

// name is how people know the node.
func (n *node) name() string {
	if n.spec.Name != "" {
		return n.spec.Name
	}
	return string(n.spec.ID)
}

// domain is the failure domain the node belongs to.
func (n *node) domain() string {
	if n.spec.Domain != "" {
		return n.spec.Domain
	}
	return n.spec.Datacenter
}

// holderName names a placement by its workload, for people.
func (n *node) holderName(id psg.RequestID) string {
	for _, h := range n.held {
		if h.placement.Ask.ID == id {
			return h.workload.id.String()
		}
	}
	return string(id)
}

// holdCards takes a placement's device shares, or gives them back. A share of
// a device that has left the node counts nowhere.
func (n *node) holdCards(shares []psg.DeviceShare, sign int) {
	for _, s := range shares {
		if i, ok := n.byID[s.Device]; ok {
			n.cards[i].hold(s, sign)
			n.free[i] = n.cards[i].shareable()
		}
	}
}
