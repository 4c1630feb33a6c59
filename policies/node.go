package policies

import (
	"math"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/hclspec"
)

// document is input.node of one node at one moment, with what it was made
// from: from equal things the same document is used again, and with it all
// that was ruled on it. It holds no pointer into the snapshot's slices, which
// would keep whole snapshots alive.
type document struct {
	id    psg.NodeID
	from  origin
	value *ast.Term
}

// origin is what decides whether a node's document is still right.
type origin struct {
	version    uint64
	telemetry  *psg.Telemetry
	projection *psg.Projection
	residents  []residentOrigin
}

type residentOrigin struct {
	ask      psg.Ask
	state    psg.State
	request  psg.Resources
	devices  []psg.DeviceShare
	known    bool
	workload uint64 // version
}

// resident is one placement on a node and the workload it belongs to, nil where
// that is not known.
type resident struct {
	placement *psg.Placement
	workload  *psg.Workload
}

func originOf(node *psg.Node, residents []resident) origin {
	o := origin{node.Version, node.Telemetry, node.Projection, make([]residentOrigin, len(residents))}
	for i, r := range residents {
		p := r.placement
		o.residents[i] = residentOrigin{ask: p.Ask, state: p.State, request: p.Request, devices: p.Devices}
		if r.workload != nil {
			o.residents[i].known, o.residents[i].workload = true, r.workload.Version
		}
	}
	return o
}

// same reports whether documents from both are equal. A version of 0 promises
// nothing.
func (o origin) same(other origin) bool {
	return o.version != 0 && o.version == other.version && o.telemetry == other.telemetry &&
		o.projection == other.projection && slices.EqualFunc(o.residents, other.residents, residentOrigin.same)
}

func (o residentOrigin) same(other residentOrigin) bool {
	return o.ask == other.ask && o.state == other.state && o.request == other.request && slices.Equal(o.devices, other.devices) &&
		o.known == other.known && o.workload == other.workload && (o.workload != 0 || !o.known)
}

// gpuUse is what one node's GPUs offer and hold, in milli-GPU.
type gpuUse struct {
	capacity int64
	used     int64
	byDevice map[psg.DeviceID]int64
}

func gpuUseOf(node *psg.Node, residents []resident) gpuUse {
	use := gpuUse{byDevice: map[psg.DeviceID]int64{}}
	for _, r := range residents {
		for _, share := range r.placement.Devices {
			use.byDevice[share.Device] += share.MilliGPU
		}
	}
	for _, device := range node.Devices {
		if device.Type != "gpu" || !device.Healthy {
			continue
		}
		use.capacity += 1000
		if device.Foreign {
			use.byDevice[device.ID] = 1000
		}
		use.used += use.byDevice[device.ID]
	}
	return use
}

// nodeDocument is input.node.
func nodeDocument(node *psg.Node, residents []resident, aggregates []hclspec.Aggregate) *ast.Term {
	gpus := gpuUseOf(node, residents)
	free := node.Capacity
	workloads := make([]*ast.Term, len(residents))
	for i, r := range residents {
		free = free.Sub(r.placement.Request)
		workloads[i] = r.document(node)
	}
	devices := make([]*ast.Term, len(node.Devices))
	for i, device := range node.Devices {
		devices[i] = ast.ObjectTerm(
			field("id", text(device.ID)), field("vendor", text(device.Vendor)), field("type", text(device.Type)),
			field("model", text(device.Model)), field("memory_mb", integer(device.MemoryMB)), field("healthy", ast.InternedTerm(device.Healthy)),
			field("foreign", ast.InternedTerm(device.Foreign)), field("milli_gpu_free", integer(1000-gpus.byDevice[device.ID])))
	}
	return ast.ObjectTerm(
		field("id", text(node.ID)), field("name", text(node.Name)), field("region", text(node.Region)),
		field("datacenter", text(node.Datacenter)), field("domain", text(domain(node))), field("class", text(node.Class)),
		field("pool", text(node.Pool)), field("ready", ast.InternedTerm(node.Ready)),
		field("attributes", stringMap(node.Attributes)), field("meta", stringMap(node.Meta)),
		field("capacity", amounts(node.Capacity, gpus.capacity)), field("free", amounts(free, gpus.capacity-gpus.used)),
		field("devices", ast.ArrayTerm(devices...)), field("workloads", ast.ArrayTerm(workloads...)),
		field("agg", counts(residents, aggregates)), field("telemetry", telemetry(node.Telemetry)),
		field("observed_at", observedAt(node.Telemetry)), field("projection", projection(node.Projection)))
}

func domain(node *psg.Node) string {
	if node.Domain != "" {
		return node.Domain
	}
	return node.Datacenter
}

// document is one entry of input.node.workloads.
func (r resident) document(node *psg.Node) *ast.Term {
	w := r.workload
	if w == nil {
		w = &psg.Workload{}
	}
	var milliGPU, gpus int64
	for _, share := range r.placement.Devices {
		if slices.ContainsFunc(node.Devices, func(d psg.Device) bool { return d.ID == share.Device && d.Type == "gpu" }) {
			milliGPU += share.MilliGPU
			gpus++
		}
	}
	ask := r.placement.Ask
	return ast.ObjectTerm(
		field("alloc", text(ask.Alloc)), field("request_id", text(ask.ID)), field("state", text(r.placement.State)),
		field("reservation", ast.InternedTerm(ask.Hold > 0)), field("namespace", text(ask.Workload.Namespace)),
		field("job", text(ask.Workload.Job)), field("group", text(ask.Workload.Group)), field("service", text(service(ask.Workload))),
		field("type", text(w.Type)), field("kind", text(w.Kind)), field("tier", text(w.Tier)), field("tenant", text(w.Tenant)),
		field("labels", stringMap(w.Labels)), field("preemptible", ast.InternedTerm(w.Preemptible)),
		field("priority", integer(int64(w.Priority))), field("milli_gpu", integer(milliGPU)), field("gpus", integer(gpus)))
}

func counts(residents []resident, aggregates []hclspec.Aggregate) *ast.Term {
	fields := make([][2]*ast.Term, len(aggregates))
	for i, aggregate := range aggregates {
		n := int64(0)
		for _, r := range residents {
			if r.workload != nil && aggregate.Match.Counts(r.workload) {
				n++
			}
		}
		fields[i] = field(aggregate.Name, integer(n))
	}
	return ast.ObjectTerm(fields...)
}

func telemetry(t *psg.Telemetry) *ast.Term {
	if t == nil {
		return ast.ObjectTerm()
	}
	metrics := make([][2]*ast.Term, 0, len(t.Metrics))
	for name, s := range t.Metrics {
		metrics = append(metrics, field(name, statisticsDocument(s)))
	}
	return ast.ObjectTerm(metrics...)
}

// statisticsDocument leaves out what is not a number: it is undefined to Rego,
// as JSON cannot say it.
func statisticsDocument(s psg.Stats) *ast.Term {
	values := []float64{s.Last, s.Max, s.Mean, s.P50, s.P95, s.P99}
	var fields [][2]*ast.Term
	for i, name := range statistics() {
		if !math.IsNaN(values[i]) && !math.IsInf(values[i], 0) {
			fields = append(fields, field(name, ast.FloatNumberTerm(values[i])))
		}
	}
	return ast.ObjectTerm(fields...)
}

func observedAt(t *psg.Telemetry) *ast.Term {
	if t == nil || t.At.IsZero() {
		return integer(0)
	}
	return integer(t.At.UnixNano())
}

func projection(p *psg.Projection) *ast.Term {
	if p == nil {
		return ast.ObjectTerm()
	}
	fields := make([][2]*ast.Term, psg.Dimensions)
	for dimension := range fields {
		fields[dimension] = field(psg.Dimension(dimension).String(),
			ast.ObjectTerm(field("mean", integer(p.Mean[dimension])), field("upper", integer(p.Upper[dimension]))))
	}
	return ast.ObjectTerm(fields...)
}
