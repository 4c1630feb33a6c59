package shim

import (
	"slices"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

// group makes the workload of one task group; common is the job's share of it.
func (t *translator) group(path string, g *api.TaskGroup, common psg.Workload) psg.Workload {
	w := common
	w.ID.Group = *g.Name
	w.Tenant = psg.TenantID(w.ID.Namespace)
	w.Kind = string(w.Type)
	w.Count = *g.Count
	t.require(0 <= w.Count && w.Count <= maxCount, field(path, "Count"), "%d is outside 0..%d", w.Count, int(maxCount))
	t.spend(path, len(w.Constraints)+len(w.Affinities)+len(w.Spreads))
	w.Meta = t.overlay(path, t.job.Meta, g.Meta)
	w.Held = w.Held || heldBy(g.Constraints)
	w.Constraints = append(slices.Clip(w.Constraints), t.constraints(field(path, "Constraints"), g.Constraints, psg.GroupScope)...)
	w.Affinities = append(slices.Clip(w.Affinities), t.affinities(field(path, "Affinities"), g.Affinities, psg.GroupScope)...)
	w.Spreads = append(slices.Clip(w.Spreads), t.spreads(field(path, "Spreads"), g.Spreads, psg.GroupScope)...)
	w.Volumes = t.volumes(field(path, "Volumes"), g.Volumes)
	w.Update = t.update(field(path, "Update"), g.Update)
	w.Migrate = t.migrate(field(path, "Migrate"), g.Migrate)
	w.Reschedule = t.reschedule(field(path, "ReschedulePolicy"), g.ReschedulePolicy)
	w.Disconnect = t.disconnect(field(path, "Disconnect"), g.Disconnect)

	ports := portReader{translator: t, labels: map[string]bool{}, taken: map[portKey]bool{}}
	mbits := ports.networks(field(path, "Networks"), g.Networks)
	t.require(len(g.Tasks) > 0, field(path, "Tasks"), "is empty: a group needs a task")
	seen := map[string]bool{}
	for i, task := range g.Tasks {
		at := elem(field(path, "Tasks"), i)
		t.name(field(at, "Name"), task.Name)
		t.distinct(seen, field(at, "Name"), task.Name)
		t.task(at, task, &w, &ports)
	}
	w.Ports = ports.asks
	w.Request = peak(w.Tasks)
	w.Request[psg.Disk] = t.amount(field(field(path, "EphemeralDisk"), "SizeMB"), g.EphemeralDisk.SizeMB)
	w.Request[psg.Network] += mbits
	if err := w.Request.Validate(); err != nil && len(t.problems) == 0 {
		t.fail(path, "the tasks together: %v", err)
	}
	return w
}

// task adds one task to its group's workload.
func (t *translator) task(path string, task *api.Task, w *psg.Workload, ports *portReader) {
	t.require(task.Driver != "", field(path, "Driver"), "is empty")
	resources := field(path, "Resources")
	request := t.resources(resources, task.Resources)
	request[psg.Network] = ports.networks(field(resources, "Networks"), task.Resources.Networks)
	w.Tasks = append(w.Tasks, psg.Task{
		Name:      task.Name,
		Driver:    task.Driver,
		Lifecycle: t.lifecycle(field(path, "Lifecycle"), task.Lifecycle),
		Request:   request,
		Meta:      t.overlay(path, w.Meta, task.Meta),
	})
	w.Held = w.Held || heldBy(task.Constraints)
	w.Constraints = append(w.Constraints, t.constraints(field(path, "Constraints"), task.Constraints, psg.TaskScope)...)
	w.Affinities = append(w.Affinities, t.affinities(field(path, "Affinities"), task.Affinities, psg.TaskScope)...)
	w.Devices = append(w.Devices, t.devices(field(resources, "Devices"), task)...)
	w.NUMA = t.numa(field(resources, "NUMA"), task.Resources.NUMA, w.NUMA)
	if task.Driver == Driver {
		t.stanza(field(path, "Config"), task, w)
	}
}

// lifecycle reads when a task runs within its group.
func (t *translator) lifecycle(path string, l *api.TaskLifecycle) psg.Lifecycle {
	if l == nil {
		return psg.Main
	}
	switch {
	case l.Hook == api.TaskLifecycleHookPrestart && l.Sidecar:
		return psg.PrestartSidecar
	case l.Hook == api.TaskLifecycleHookPrestart:
		return psg.Prestart
	case l.Hook == api.TaskLifecycleHookPoststart && l.Sidecar:
		return psg.PoststartSidecar
	case l.Hook == api.TaskLifecycleHookPoststart:
		return psg.Poststart
	case l.Hook == api.TaskLifecycleHookPoststop && l.Sidecar:
		t.fail(field(path, "Sidecar"), "a poststop task cannot be a sidecar")
	case l.Hook == api.TaskLifecycleHookPoststop:
	default:
		t.in(field(path, "Hook"), l.Hook, api.TaskLifecycleHookPrestart, api.TaskLifecycleHookPoststart, api.TaskLifecycleHookPoststop)
	}
	return psg.Poststop
}

// What a task may ask of NUMA.
const (
	numaNone    = "none"
	numaPrefer  = "prefer"
	numaRequire = "require"
)

// numa merges one task's wish into that of the tasks before it: the strictest
// counts for the whole instance.
func (t *translator) numa(path string, n *api.NUMAResource, before string) string {
	if n == nil {
		return before
	}
	ranks := []string{"", numaNone, numaPrefer, numaRequire}
	t.in(field(path, "Affinity"), n.Affinity, ranks[1:]...)
	return ranks[max(slices.Index(ranks, before), slices.Index(ranks, n.Affinity), 0)]
}
