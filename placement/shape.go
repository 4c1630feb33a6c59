package placement

import (
	"encoding/json"
	"slices"

	"github.com/psgrid/psg"
)

// shape is everything of a workload that decides where its instances fit and
// how nodes rank for them, policy apart. Workloads of one shape share their
// candidates.
type shape struct {
	key         string
	filter      *filter
	request     psg.Resources
	amounts     []amount
	devices     []psg.DeviceAsk
	ceiling     int64          // the most that its cards can add to a score
	plain       *psg.DeviceAsk // the only device ask, where it needs no search
	deviceTexts []string       // the device asks in words
	numa        string
	ports       portPlan
	limits      []int
	// own is set where placements of the workload's own job matter: then the
	// shape is this workload's alone.
	own           *workload
	distinctHosts bool // no other instance of the group on the node
	distinctJob   bool // nor of any group of the job

	users   int // workloads
	used    uint64
	classes map[*judgement]*class
}

// shapeOf finds or makes a workload's shape.
func (e *Engine) shapeOf(w *workload) *shape {
	if w.shape != nil {
		return w.shape
	}
	key := shapeKey(w)
	s, ok := e.shapes[key]
	if !ok {
		s = &shape{
			key: key, filter: e.filterFor(&w.spec), request: w.spec.Request, amounts: amounts(w.spec.Request), devices: w.spec.Devices,
			numa: w.spec.NUMA, ports: w.ports, limits: w.limits, classes: make(map[*judgement]*class),
		}
		s.plain = s.plainAsk()
		s.ceiling = e.cardCeiling(s)
		for i := range s.devices {
			s.deviceTexts = append(s.deviceTexts, deviceText(&s.devices[i]))
		}
		if minding(w) {
			s.own = w
			s.distinctHosts, s.distinctJob = distinctHosts(w.spec.Constraints)
		}
		e.shapes[key] = s
	}
	w.shape = s
	s.users++
	return s
}

// minding reports whether a workload's own placements bear on where its next
// instance may go.
func minding(w *workload) bool {
	hosts, jobs := distinctHosts(w.spec.Constraints)
	return len(w.tally.counters) > 0 || hosts || jobs
}

// counts reports whether candidates stand in cells by what the tally counts.
func (s *shape) counts() bool { return s.own != nil && len(s.own.tally.counters) > 0 }

func shapeKey(w *workload) string {
	own := psg.WorkloadID{}
	if minding(w) {
		own = w.id
	}
	return encode(struct {
		Filter  string
		Request psg.Resources
		NUMA    string
		Ports   []psg.PortAsk
		Limits  []int
		Own     psg.WorkloadID
	}{filterKey(&w.spec), w.spec.Request, w.spec.NUMA, w.spec.Ports, w.limits, own})
}

// filterKey holds what a node's own description answers: everything static.
func filterKey(w *psg.Workload) string {
	return encode(struct {
		Region      string
		Datacenters []string
		Pool        string
		Drivers     []string
		Volumes     []psg.VolumeAsk
		Networks    []string
		Constraints []psg.Constraint
		Affinities  []psg.Affinity
		Devices     []psg.DeviceAsk
	}{
		w.Region, w.Datacenters, w.NodePool, drivers(w), w.Volumes, hostNetworks(w.Ports),
		w.Constraints, w.Affinities, w.Devices,
	})
}

// encode writes a key; the value holds nothing that JSON can't carry.
func encode(key any) string {
	text, err := json.Marshal(key)
	if err != nil {
		panic("placement: key does not encode: " + err.Error())
	}
	return string(text)
}

func drivers(w *psg.Workload) []string {
	var names []string
	for _, t := range w.Tasks {
		if t.Driver != "" {
			names = append(names, t.Driver)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func hostNetworks(asks []psg.PortAsk) []string {
	var names []string
	for _, p := range asks {
		if p.HostNetwork != "" {
			names = append(names, p.HostNetwork)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// distinctHosts reads the distinct_hosts constraints of a workload: whether
// its group, and whether its whole job, must not share a node. A value that is
// no boolean enforces, as in Nomad.
func distinctHosts(constraints []psg.Constraint) (group, job bool) {
	for _, c := range constraints {
		if c.Operator != psg.DistinctHosts || isFalse(c.Right) {
			continue
		}
		if c.Scope == psg.JobScope {
			job = true
		} else {
			group = true
		}
	}
	return group, job
}

func isFalse(text string) bool {
	switch text {
	case "0", "f", "F", "false", "FALSE", "False":
		return true
	}
	return false
}
