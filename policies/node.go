package policies

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/hclspec"
)

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
	return newDocument(node, residents, aggregates).value()
}

func (d *document) capacity() *ast.Term {
	return amounts(d.node.Capacity, gpuUseOf(&d.node, d.residents).capacity)
}

func (d *document) free() *ast.Term {
	free := d.node.Capacity
	for _, r := range d.residents {
		free = free.Sub(r.placement.Request)
	}
	gpus := gpuUseOf(&d.node, d.residents)
	return amounts(free, gpus.capacity-gpus.used)
}

func (d *document) workloads() *ast.Term {
	terms := make([]*ast.Term, len(d.residents))
	copy(terms, d.known)
	for i, r := range d.residents {
		if terms[i] == nil {
			terms[i] = r.document(&d.node)
		}
	}
	d.made.Store(&terms)
	return ast.ArrayTerm(terms...)
}

func (d *document) devices() *ast.Term {
	gpus := gpuUseOf(&d.node, d.residents)
	terms := make([]*ast.Term, len(d.node.Devices))
	for i, device := range d.node.Devices {
		terms[i] = ast.ObjectTerm(
			field("id", text(device.ID)), field("vendor", text(device.Vendor)), field("type", text(device.Type)),
			field("model", text(device.Model)), field("memory_mb", integer(device.MemoryMB)), field("healthy", ast.InternedTerm(device.Healthy)),
			field("foreign", ast.InternedTerm(device.Foreign)), field("milli_gpu_free", integer(1000-gpus.byDevice[device.ID])))
	}
	return ast.ArrayTerm(terms...)
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

func metrics(t *psg.Telemetry) *ast.Term {
	if t == nil {
		return ast.ObjectTerm()
	}
	fields := make([][2]*ast.Term, 0, len(t.Metrics))
	for name, s := range t.Metrics {
		fields = append(fields, field(name, statisticsDocument(s)))
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
