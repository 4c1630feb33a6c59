package placement

import (
	"slices"
	"strings"

	"github.com/psgrid/psg"
)

// filter tells which nodes a workload may go to by what the nodes say of
// themselves, and how much its affinities draw it there. It remembers the
// answer per node until the node changes.
type filter struct {
	region      string
	datacenters []string
	pool        string
	drivers     []string
	volumes     []psg.VolumeAsk
	networks    []reference
	terms       []term
	affinities  []attraction
	strength    int64 // sum of the affinities' absolute weights
	devices     []deviceFilter

	verdicts []verdict // by slot
}

type attraction struct {
	term
	weight int64
}

// verdict is what the filter found on one node.
type verdict struct {
	spec     uint32 // Engine.specs when this was found; 0 means never
	ok       bool
	affinity int32    // -1000..1000: the matched share of the affinities' strength
	cards    []uint64 // per device ask: which cards answer to it
}

// deviceFilter is the static part of one device ask.
type deviceFilter struct {
	name       string
	terms      []cardTerm
	affinities []cardAttraction
	strength   int64
}

type cardAttraction struct {
	cardTerm
	weight int64
}

func (e *Engine) filterFor(w *psg.Workload) *filter {
	key := filterKey(w)
	f, ok := e.filters[key]
	if !ok {
		f = newFilter(w)
		e.filters[key] = f
	}
	return f
}

func newFilter(w *psg.Workload) *filter {
	f := &filter{
		region: w.Region, datacenters: w.Datacenters, pool: w.NodePool,
		drivers: drivers(w), volumes: w.Volumes,
	}
	for _, name := range hostNetworks(w.Ports) {
		f.networks = append(f.networks, parseReference(name))
	}
	for _, c := range w.Constraints {
		if c.Operator != psg.DistinctHosts && c.Operator != psg.DistinctProperty {
			f.terms = append(f.terms, compile(c))
		}
	}
	for _, a := range w.Affinities {
		f.affinities = append(f.affinities, attraction{compile(a.Constraint), int64(a.Weight)})
		f.strength += max(int64(a.Weight), -int64(a.Weight))
	}
	for i := range w.Devices {
		f.devices = append(f.devices, newDeviceFilter(&w.Devices[i]))
	}
	return f
}

func newDeviceFilter(ask *psg.DeviceAsk) deviceFilter {
	d := deviceFilter{name: ask.Name}
	for _, c := range ask.Constraints {
		d.terms = append(d.terms, compileCard(c))
	}
	for _, a := range ask.Affinities {
		d.affinities = append(d.affinities, cardAttraction{compileCard(a.Constraint), int64(a.Weight)})
		d.strength += max(int64(a.Weight), -int64(a.Weight))
	}
	return d
}

// on returns the verdict on the node in a slot.
func (f *filter) on(e *Engine, slot int32) *verdict {
	if int(slot) >= len(f.verdicts) {
		f.verdicts = append(f.verdicts, make([]verdict, len(e.slots)-len(f.verdicts))...)
	}
	v := &f.verdicts[slot]
	if v.spec != e.specs[slot] {
		*v = f.judge(e.slots[slot])
		v.spec = e.specs[slot]
	}
	return v
}

func (f *filter) judge(n *node) verdict {
	var v verdict
	if n == nil || !f.admits(n) {
		return v
	}
	v = f.matching(n)
	if f.strength > 0 {
		matched := int64(0)
		for i := range f.affinities {
			if f.affinities[i].holds(&n.spec) {
				matched += f.affinities[i].weight
			}
		}
		v.affinity = int32(1000 * matched / f.strength)
	}
	return v
}

// matching is the verdict on a node that is admitted, affinities apart.
func (f *filter) matching(n *node) verdict {
	v := verdict{ok: true}
	for i := range f.devices {
		v.cards = append(v.cards, f.devices[i].cards(n))
	}
	return v
}

// cards is the set of a node's cards that answer to the ask.
func (d *deviceFilter) cards(n *node) uint64 {
	var set uint64
	for i := range n.cards {
		if d.admits(n.cards[i].spec) {
			set |= 1 << i
		}
	}
	return set
}

func (d *deviceFilter) admits(card *psg.Device) bool {
	if !card.Named(d.name) {
		return false
	}
	for i := range d.terms {
		if !d.terms[i].holds(card) {
			return false
		}
	}
	return true
}

// attracts is the matched share of the ask's affinities on one card, in -1000..1000.
func (d *deviceFilter) attracts(card *psg.Device) int64 {
	if d.strength == 0 {
		return 0
	}
	matched := int64(0)
	for i := range d.affinities {
		if d.affinities[i].holds(card) {
			matched += d.affinities[i].weight
		}
	}
	return 1000 * matched / d.strength
}

func (f *filter) admits(n *node) bool {
	o := objections{mode: verdictOnly}
	f.object(n, &o)
	return !o.raised
}

// object raises everything that keeps the workload off a node whatever the
// node holds.
func (f *filter) object(n *node, o *objections) {
	for _, check := range []func(*node, *objections){f.state, f.place, f.equipment, f.mounts, f.demands} {
		if check(n, o); o.done() {
			return
		}
	}
}

func (f *filter) state(n *node, o *objections) {
	switch {
	case n.fault != "":
		o.seen("node", "its figures are invalid", ": "+n.fault)
	case n.spec.Draining:
		o.raise("node", "draining")
	case !n.spec.Ready:
		o.raise("node", "not ready")
	}
}

func (f *filter) place(n *node, o *objections) {
	if f.region != "" && n.spec.Region != "" && f.region != n.spec.Region {
		o.raise("node", "region is not %s", f.region)
	}
	inAny := slices.ContainsFunc(f.datacenters, func(dc string) bool { return glob(dc, n.spec.Datacenter) })
	if len(f.datacenters) > 0 && !inAny {
		o.raise("node", "datacenter is not %s", strings.Join(f.datacenters, " or "))
	}
	if f.pool != "" && f.pool != "all" && f.pool != n.spec.Pool {
		o.raise("node", "node pool is not %s", f.pool)
	}
}

func (f *filter) equipment(n *node, o *objections) {
	for _, driver := range f.drivers {
		if len(n.spec.Drivers) > 0 && !slices.Contains(n.spec.Drivers, driver) {
			o.raise("node", "driver %s is missing", driver)
		}
	}
	for _, ref := range f.networks {
		name, ok := ref.on(&n.spec)
		if !ok || name != "" && name != defaultHostNetwork && !slices.Contains(n.spec.HostNetworks, name) {
			o.raise("node", "host network %s is missing", quote(name))
		}
	}
}

func (f *filter) mounts(n *node, o *objections) {
	for i := range f.volumes {
		switch v := &f.volumes[i]; v.Type {
		case "csi":
			if len(n.spec.CSIPlugins) == 0 {
				o.raise("volume", "no CSI plugin for %s", v.Name)
			}
		case "", "host":
			hostVolume(v, n, o)
		}
	}
}

// hostVolume objects where a host volume can't be mounted. A volume per
// allocation is one of several named SOURCE[index].
func hostVolume(v *psg.VolumeAsk, n *node, o *objections) {
	for _, have := range n.spec.HostVolumes {
		if have.Name != v.Source && !(v.PerAlloc && strings.HasPrefix(have.Name, v.Source+"[")) {
			continue
		}
		if have.ReadOnly && !v.ReadOnly {
			o.raise("volume", "host volume %s is read-only", v.Source)
		}
		return
	}
	o.raise("volume", "host volume %s is missing", v.Source)
}

func (f *filter) demands(n *node, o *objections) {
	for i := range f.terms {
		if t := &f.terms[i]; !t.holds(&n.spec) {
			switch o.mode {
			case inFull:
				o.seen("constraint", t.text, t.saw(&n.spec))
			case inBrief:
				o.seen("constraint", t.text, "")
			case verdictOnly:
				o.raised = true
				return
			}
		}
	}
}
