package placement

import "github.com/psgrid/psg"

// Headroom is the memory that instances may burst to above their guarantee:
// nobody reserves it, and where a node's instances may burst to more than is
// left there, not all of them find it when they want it.

// burst is by how much a request's memory ceiling is above its guarantee.
func burst(request *psg.Resources) int64 {
	return max(0, request[psg.MemoryMax]-request[psg.Memory])
}

// cramped is by how many tenths of the node's memory its bursts would exceed
// what is left, with a request in it. Left is what nobody is guaranteed, or what
// is projected to stay unused if that is less.
func (r *room) cramped(request *psg.Resources) int64 {
	total := r.total[1]
	left := min(r.free[psg.Memory], (bands-r.filled)*total/bands)
	excess := r.bursts + burst(request) + request[psg.Memory] - left
	if excess <= 0 || total == 0 {
		return 0
	}
	return min(excess, total) * bands / total
}
