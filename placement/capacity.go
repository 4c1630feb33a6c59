package placement

import "github.com/psgrid/psg"

// room is what decides on capacity at a node, kept apart from all else about it
// because each decision reads it for many nodes.
//
// Free memory is capacity less guaranteed memory. memory_max is a ceiling, not
// a holding: it is not summed, and its entry is the most that any one instance
// may burst to there, which is the node's memory.
type room struct {
	free    psg.Resources
	perCore int64 // MHz that one reserved core takes out of the CPU shares

	total   [2]int64 // capacity of the dimensions that packing looks at
	inverse [2]int64 // 2^40 over total; 0 where there is none
	cards   bool     // whether the node has any
	busy    int64    // band of its processors
	filled  int64    // band of its memory
	bursts  int64    // MiB that what it holds may burst to, above the guarantees
}

// packed are the dimensions that packing looks at.
var packed = [2]psg.Dimension{psg.CPU, psg.Memory}

// emptyRoom is the room of a node that holds nothing.
func emptyRoom(n *psg.Node) room {
	r := room{free: n.Capacity, cards: len(n.Devices) > 0}
	r.observe(n)
	if r.free[psg.MemoryMax] == 0 {
		r.free[psg.MemoryMax] = n.Capacity[psg.Memory]
	}
	if cores := n.Capacity[psg.Cores]; cores > 0 {
		r.perCore = n.Capacity[psg.CPU] / cores
	}
	for i, d := range packed {
		if r.total[i] = n.Capacity[d]; r.total[i] > 0 {
			r.inverse[i] = (1 << 40) / r.total[i]
		}
	}
	return r
}

// need is what a request must find free: a reserved core takes its MHz as well.
func (r *room) need(request psg.Resources) psg.Resources {
	request[psg.CPU] += request[psg.Cores] * r.perCore
	return request
}

func (r *room) take(request psg.Resources) { r.hold(request, 1) }
func (r *room) give(request psg.Resources) { r.hold(request, -1) }

func (r *room) hold(request psg.Resources, sign int64) {
	r.bursts += sign * burst(&request)
	request = r.need(request)
	request[psg.MemoryMax] = 0
	for d, amount := range request {
		r.free[d] -= sign * amount
	}
}

// fits reports whether all that is asked for is free. What is not asked for may
// be overdrawn.
func (r *room) fits(asked []amount) bool {
	for _, a := range asked {
		need := a.amount
		if a.dimension == psg.CPU {
			need += a.cores * r.perCore
		}
		if need > r.free[a.dimension] {
			return false
		}
	}
	return true
}

// amount is one dimension of a request that is not zero.
type amount struct {
	dimension psg.Dimension
	amount    int64
	cores     int64 // with CPU: the reserved cores, whose MHz come on top
}

// amounts lists what a request asks for.
func amounts(request psg.Resources) []amount {
	var list []amount
	for d, n := range request {
		a := amount{dimension: psg.Dimension(d), amount: n}
		if a.dimension == psg.CPU {
			a.cores = request[psg.Cores]
		}
		if a.amount > 0 || a.cores > 0 {
			list = append(list, a)
		}
	}
	return list
}

// fullness is how full the room would be with a request in it: the mean over
// the packed dimensions, in thousandths.
func (r *room) fullness(request *psg.Resources) int64 {
	full := int64(0)
	for i, d := range packed {
		used := max(0, min(r.total[i], r.total[i]-r.free[d]+request[d])) // an overdrawn node is just full
		full += (used * r.inverse[i] >> 20) * 500 >> 20
	}
	return full
}

// overload is by how many tenths a node is busier than what its placements
// asked for explains.
func (r *room) overload() int64 {
	if r.busy == 0 || r.total[0] == 0 {
		return r.busy
	}
	return max(0, r.busy-bands*(r.total[0]-r.free[psg.CPU])/r.total[0])
}

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
