package placement

import (
	"slices"
	"strings"

	"github.com/psgrid/psg"
)

// twin is the dumb reading of the hard rules: it recounts everything from the
// placements each time, looks at every node and tries every set of cards. It
// shares no code with the engine.
type twin struct {
	nodes      []psg.Node
	workloads  map[psg.WorkloadID]psg.Workload
	placements []psg.Placement
	denied     map[psg.WorkloadID]map[psg.NodeID]bool
	protected  map[psg.WorkloadID]bool
	limits     []psg.Limit
}

func (t *twin) on(node psg.NodeID) []psg.Placement {
	var list []psg.Placement
	for _, p := range t.placements {
		if p.Node == node {
			list = append(list, p)
		}
	}
	return list
}

// fits is whether a workload could run on a node now.
func (t *twin) fits(w psg.Workload, n psg.Node) bool {
	return n.Ready && !t.denied[w.ID][n.ID] && t.meets(w, n) && t.roomFor(w, n) && t.portFree(w, n) &&
		t.apart(w, n) && t.underLimits(w, n) && t.domainsLeft(w, n) && t.cardsFor(w, n)
}

func (t *twin) meets(w psg.Workload, n psg.Node) bool {
	for _, c := range w.Constraints {
		name := strings.TrimSuffix(strings.TrimPrefix(c.Left, "${attr."), "}")
		value, ok := n.Attributes[name]
		switch c.Operator {
		case psg.Equal:
			if !ok || value != c.Right {
				return false
			}
		case psg.NotEqual:
			if value == c.Right {
				return false
			}
		case psg.IsSet:
			if !ok {
				return false
			}
		}
	}
	return len(w.Datacenters) == 0 || slices.Contains(w.Datacenters, n.Datacenter)
}

func (t *twin) roomFor(w psg.Workload, n psg.Node) bool {
	used := w.Request
	for _, p := range t.on(n.ID) {
		used = used.Add(p.Request)
	}
	for _, d := range []psg.Dimension{psg.CPU, psg.Memory, psg.Disk} {
		if used[d] > n.Capacity[d] {
			return false
		}
	}
	return w.Request[psg.MemoryMax] <= n.Capacity[psg.Memory]
}

func (t *twin) portFree(w psg.Workload, n psg.Node) bool {
	for _, ask := range w.Ports {
		for _, p := range t.on(n.ID) {
			for _, held := range p.Ports {
				if held.Port == ask.Static {
					return false
				}
			}
		}
	}
	return true
}

func (t *twin) apart(w psg.Workload, n psg.Node) bool {
	for _, c := range w.Constraints {
		switch c.Operator {
		case psg.DistinctHosts:
			for _, p := range t.on(n.ID) {
				if p.Ask.Workload == w.ID {
					return false
				}
			}
		case psg.DistinctProperty:
			rack, ok := n.Attributes["rack"]
			if !ok {
				return false
			}
			most := map[string]int{"": 1, "1": 1, "2": 2}[c.Right]
			for _, p := range t.placements {
				if p.Ask.Workload == w.ID && t.node(p.Node).Attributes["rack"] == rack {
					most--
				}
			}
			if most <= 0 {
				return false
			}
		}
	}
	return true
}

func (t *twin) underLimits(w psg.Workload, n psg.Node) bool {
	for i := range t.limits {
		l := &t.limits[i]
		if !l.Covers(w.Labels) {
			continue
		}
		here, total := 1, 1
		for _, p := range t.placements {
			if l.Covers(t.workloads[p.Ask.Workload].Labels) {
				total++
				if p.Node == n.ID {
					here++
				}
			}
		}
		if l.PerNode > 0 && here > l.PerNode && !l.Soft || l.Total > 0 && total > l.Total {
			return false
		}
	}
	return true
}

// domainsLeft is whether as many datacenters as wanted can still be reached.
func (t *twin) domainsLeft(w psg.Workload, n psg.Node) bool {
	in, placed := map[string]bool{n.Datacenter: true}, 1
	for _, p := range t.placements {
		if p.Ask.Workload == w.ID {
			in[t.node(p.Node).Datacenter] = true
			placed++
		}
	}
	return w.MinDomains < 2 || len(in)+max(0, w.Count-placed) >= w.MinDomains
}

func (t *twin) node(id psg.NodeID) psg.Node {
	for _, n := range t.nodes {
		if n.ID == id {
			return n
		}
	}
	return psg.Node{}
}

// cardsFor tries every way to hand out cards.
func (t *twin) cardsFor(w psg.Workload, n psg.Node) bool {
	milli, memory := map[psg.DeviceID]int64{}, map[psg.DeviceID]int64{}
	busy := map[psg.DeviceID]bool{}
	for _, d := range n.Devices {
		milli[d.ID], memory[d.ID] = 1000, d.MemoryMB
	}
	for _, p := range t.on(n.ID) {
		for _, s := range p.Devices {
			milli[s.Device] -= s.MilliGPU
			memory[s.Device] -= s.MemoryMB
			busy[s.Device] = true
		}
	}
	var try func(ask, need, from int) bool
	try = func(ask, need, from int) bool {
		if ask == len(w.Devices) {
			return true
		}
		a := w.Devices[ask]
		if need == 0 {
			next := ask + 1
			if next == len(w.Devices) {
				return true
			}
			return try(next, w.Devices[next].Count, 0)
		}
		for i := from; i < len(n.Devices); i++ {
			d := n.Devices[i]
			share, mem, was := a.MilliGPU, a.MilliGPU*d.MemoryMB/1000, busy[d.ID]
			if a.MemoryMB > 0 {
				mem = a.MemoryMB
			}
			if !d.Named(a.Name) || !d.Healthy || milli[d.ID] < share || memory[d.ID] < mem || share == 1000 && was {
				continue
			}
			milli[d.ID] -= share
			memory[d.ID] -= mem
			busy[d.ID] = true
			ok := try(ask, need-1, i+1)
			milli[d.ID] += share
			memory[d.ID] += mem
			busy[d.ID] = was
			if ok {
				return true
			}
		}
		return false
	}
	if len(w.Devices) == 0 {
		return true
	}
	return try(0, w.Devices[0].Count, 0)
}
