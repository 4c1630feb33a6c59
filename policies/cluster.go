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

// hold counts a placement times times.
func (t *total) hold(p *psg.Placement, times int64) {
	t.placed += times
	for dimension := range t.used {
		t.used[dimension] += times * p.Request[dimension]
	}
	for _, share := range p.Devices {
		t.usedMilli += times * share.MilliGPU
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
	registered      bool
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

// totals are what data.cluster is made of.
type totals struct {
	all              total
	tenants, domains map[string]*total
	services         map[string]*serviceTotal
}

func totalsOf(snapshot *psg.Snapshot, residents func(row int) []resident) *totals {
	t := &totals{tenants: map[string]*total{}, domains: map[string]*total{}, services: map[string]*serviceTotal{}}
	for i := range snapshot.Workloads {
		w := &snapshot.Workloads[i]
		s := entry(t.services, service(w.ID))
		s.registered = true
		if !w.Type.EveryNode() {
			s.planned += int64(w.Count)
		}
	}
	for row := range snapshot.Nodes {
		node, held := &snapshot.Nodes[row], residents(row)
		gpus := gpuUseOf(node, held)
		t.all.offer(node, gpus)
		entry(t.domains, domain(node)).offer(node, gpus)
		t.count(node, held, 1)
	}
	return t
}

// count adds what a node's residents hold, times times: -1 takes them away.
func (t *totals) count(node *psg.Node, residents []resident, times int64) {
	where := domain(node)
	for _, r := range residents {
		t.all.hold(r.placement, times)
		entry(t.domains, where).hold(r.placement, times)
		name := service(r.placement.Ask.Workload)
		s := entry(t.services, name)
		s.placed += times
		if s.domains == nil {
			s.domains = map[string]int64{}
		}
		if s.domains[where] += times; s.domains[where] == 0 {
			delete(s.domains, where)
		}
		if s.placed == 0 && !s.registered {
			delete(t.services, name)
		}
		if r.workload == nil {
			continue
		}
		tenant := string(r.workload.Tenant)
		if entry(t.tenants, tenant).hold(r.placement, times); t.tenants[tenant].placed == 0 {
			delete(t.tenants, tenant)
		}
	}
}

func (t *totals) document() *ast.Term {
	fields := append(t.all.fields(),
		field("tenants", objectOf(t.tenants, func(t *total) *ast.Term { return ast.ObjectTerm(t.fields()[:2]...) })),
		field("domains", objectOf(t.domains, func(t *total) *ast.Term { return ast.ObjectTerm(t.fields()...) })),
		field("services", objectOf(t.services, (*serviceTotal).document)))
	return ast.ObjectTerm(fields...)
}

// clusterDocument is data.cluster.
func clusterDocument(snapshot *psg.Snapshot, residents [][]resident) *ast.Term {
	return totalsOf(snapshot, func(row int) []resident { return residents[row] }).document()
}

func objectOf[T any](totals map[string]*T, document func(*T) *ast.Term) *ast.Term {
	fields := make([][2]*ast.Term, 0, len(totals))
	for name, t := range totals {
		fields = append(fields, field(name, document(t)))
	}
	return ast.ObjectTerm(fields...)
}
