package placement

import "github.com/psgrid/psg"

// room is what decides on capacity at a node, kept together in one cache line
// because each decision reads it for many nodes.
//
// Free memory is capacity less guaranteed memory. memory_max is a ceiling, not
// a holding: it is not summed, and its entry is the most that any one instance
// may burst to there, which is the node's memory.
type room struct {
	free    psg.Resources
	perCore int64 // MHz that one reserved core takes out of the CPU shares
}

// emptyRoom is the room of a node that holds nothing.
func emptyRoom(n *psg.Node) room {
	r := room{free: n.Capacity}
	if r.free[psg.MemoryMax] == 0 {
		r.free[psg.MemoryMax] = n.Capacity[psg.Memory]
	}
	if cores := n.Capacity[psg.Cores]; cores > 0 {
		r.perCore = n.Capacity[psg.CPU] / cores
	}
	return r
}

// need is what a request must find free: a reserved core takes its MHz as well.
func (r *room) need(request psg.Resources) psg.Resources {
	request[psg.CPU] += request[psg.Cores] * r.perCore
	return request
}

// holds is what a request takes away for as long as it is placed.
func (r *room) holds(request psg.Resources) psg.Resources {
	request = r.need(request)
	request[psg.MemoryMax] = 0
	return request
}

func (r *room) take(request psg.Resources) { r.free = r.free.Sub(r.holds(request)) }
func (r *room) give(request psg.Resources) { r.free = r.free.Add(r.holds(request)) }

func (r *room) fits(request psg.Resources) bool { return r.need(request).Fits(r.free) }

// object raises what is missing, dimension by dimension.
func (r *room) object(request psg.Resources, o *objections) {
	need := r.need(request)
	for d, amount := range need.Shortfall(r.free) {
		if amount > 0 {
			dimension := psg.Dimension(d)
			o.short("capacity", dimension.String(), 1000*amount/need[d], " short by %d", amount)
		}
	}
}
