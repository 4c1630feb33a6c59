package policies

import (
	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/psgrid/psg"
)

// total is what some placements hold and some nodes offer.
type total struct {
	nodes, placed            int64
	capacity, used           psg.Resources
	capacityMilli, usedMilli int64
}

func (t *total) offer(node *psg.Node, gpus gpuUse) {
	t.nodes++
	t.capacity = t.capacity.Add(node.Capacity)
	t.capacityMilli += gpus.capacity
}

func (t *total) hold(p *psg.Placement) {
	t.placed++
	t.used = t.used.Add(p.Request)
	for _, share := range p.Devices {
		t.usedMilli += share.MilliGPU
	}
}

func (t *total) fields() [][2]*ast.Term {
	return [][2]*ast.Term{
		field("placed", integer(t.placed)), field("used", amounts(t.used, t.usedMilli)),
		field("nodes", integer(t.nodes)), field("capacity", amounts(t.capacity, t.capacityMilli)),
	}
}

// serviceTotal is one service's instances, by failure domain.
type serviceTotal struct {
	placed, planned int64
	domains         map[string]int64
}

func (t *serviceTotal) document() *ast.Term {
	domains := make([][2]*ast.Term, 0, len(t.domains))
	for name, n := range t.domains {
		domains = append(domains, field(name, integer(n)))
	}
	return ast.ObjectTerm(field("placed", integer(t.placed)),
		field("planned", integer(max(t.planned, t.placed))), field("domains", ast.ObjectTerm(domains...)))
}

// entry is the total under a name, made when first asked for.
func entry[T any](totals map[string]*T, name string) *T {
	t, ok := totals[name]
	if !ok {
		t = new(T)
		totals[name] = t
	}
	return t
}

// clusterDocument is data.cluster.
func clusterDocument(snapshot *psg.Snapshot, residents [][]resident) *ast.Term {
	var all total
	tenants, domains := map[string]*total{}, map[string]*total{}
	services := map[string]*serviceTotal{}
	for i := range snapshot.Workloads {
		w := &snapshot.Workloads[i]
		s := entry(services, service(w.ID))
		if !w.Type.EveryNode() {
			s.planned += int64(w.Count)
		}
	}
	for row := range snapshot.Nodes {
		node := &snapshot.Nodes[row]
		gpus := gpuUseOf(node, residents[row])
		where := entry(domains, domain(node))
		all.offer(node, gpus)
		where.offer(node, gpus)
		for _, r := range residents[row] {
			all.hold(r.placement)
			where.hold(r.placement)
			s := entry(services, service(r.placement.Ask.Workload))
			s.placed++
			if s.domains == nil {
				s.domains = map[string]int64{}
			}
			s.domains[domain(node)]++
			if r.workload != nil {
				entry(tenants, string(r.workload.Tenant)).hold(r.placement)
			}
		}
	}
	fields := append(all.fields(),
		field("tenants", objectOf(tenants, func(t *total) *ast.Term { return ast.ObjectTerm(t.fields()[:2]...) })),
		field("domains", objectOf(domains, func(t *total) *ast.Term { return ast.ObjectTerm(t.fields()...) })),
		field("services", objectOf(services, (*serviceTotal).document)))
	return ast.ObjectTerm(fields...)
}

func objectOf[T any](totals map[string]*T, document func(*T) *ast.Term) *ast.Term {
	fields := make([][2]*ast.Term, 0, len(totals))
	for name, t := range totals {
		fields = append(fields, field(name, document(t)))
	}
	return ast.ObjectTerm(fields...)
}
