package shim

import (
	"math"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

// portReader collects the ports of one group, from the group's own networks and
// those of its tasks.
type portReader struct {
	*translator
	labels map[string]bool
	taken  map[portKey]bool
	asks   []psg.PortAsk
}

// portKey is what two instances cannot both have.
type portKey struct {
	network string
	port    int
}

// networks reads networks and returns the bandwidth they ask for, in Mbit/s.
func (p *portReader) networks(path string, networks []*api.NetworkResource) int64 {
	var mbits int64
	for i, n := range networks {
		at := elem(path, i)
		mbits += p.amount(field(at, "MBits"), n.MBits)
		for j, port := range n.ReservedPorts {
			p.port(elem(field(at, "ReservedPorts"), j), port, port.Value)
		}
		for j, port := range n.DynamicPorts {
			p.port(elem(field(at, "DynamicPorts"), j), port, 0)
		}
	}
	return mbits
}

// port reads one port; static is 0 for a dynamic one.
func (p *portReader) port(path string, port api.Port, static int) {
	p.require(port.Label != "", field(path, "Label"), "is empty")
	p.distinct(p.labels, field(path, "Label"), port.Label)
	p.require(-1 <= port.To && port.To <= math.MaxUint16, field(path, "To"), "%d is not a port", port.To)
	p.require(0 <= static && static <= math.MaxUint16, field(path, "Value"), "%d is not a port", static)
	if static != 0 {
		key := portKey{port.HostNetwork, static}
		if key.network == defaultNetwork {
			key.network = ""
		}
		p.require(!p.taken[key] || port.IgnoreCollision, field(path, "Value"), "static port %d stands twice", static)
		p.taken[key] = true
	}
	p.asks = append(p.asks, psg.PortAsk{
		Label:           port.Label,
		Static:          static,
		To:              port.To,
		HostNetwork:     port.HostNetwork,
		IgnoreCollision: port.IgnoreCollision,
	})
}

// defaultNetwork is the host network of a port that names none.
const defaultNetwork = "default"
