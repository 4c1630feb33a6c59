package wire

import (
	"github.com/psgrid/psg"
	psgv1 "github.com/psgrid/psg/wire/psg/v1"
)

var types = enum[psg.Type, psgv1.WorkloadType]{
	psgv1.WorkloadType_WORKLOAD_TYPE_SERVICE:  psg.Service,
	psgv1.WorkloadType_WORKLOAD_TYPE_BATCH:    psg.Batch,
	psgv1.WorkloadType_WORKLOAD_TYPE_SYSTEM:   psg.System,
	psgv1.WorkloadType_WORKLOAD_TYPE_SYSBATCH: psg.SysBatch,
}

var lifecycles = enum[psg.Lifecycle, psgv1.Lifecycle]{
	psgv1.Lifecycle_LIFECYCLE_MAIN:              psg.Main,
	psgv1.Lifecycle_LIFECYCLE_PRESTART:          psg.Prestart,
	psgv1.Lifecycle_LIFECYCLE_PRESTART_SIDECAR:  psg.PrestartSidecar,
	psgv1.Lifecycle_LIFECYCLE_POSTSTART:         psg.Poststart,
	psgv1.Lifecycle_LIFECYCLE_POSTSTART_SIDECAR: psg.PoststartSidecar,
	psgv1.Lifecycle_LIFECYCLE_POSTSTOP:          psg.Poststop,
}

func putWorkload(c *coder, w psg.Workload) *psgv1.Workload {
	return &psgv1.Workload{
		Id:            putWorkloadID(w.ID),
		Version:       w.Version,
		Region:        w.Region,
		Type:          types.put(c, "type", w.Type),
		Count:         int64(w.Count),
		Priority:      int64(w.Priority),
		Tenant:        string(w.Tenant),
		Tier:          w.Tier,
		Kind:          w.Kind,
		Labels:        dict(w.Labels),
		Meta:          dict(w.Meta),
		Preemptible:   w.Preemptible,
		Deadline:      putDuration(w.Deadline),
		Gang:          string(w.Gang),
		Probe:         putOptional(c, "probe", w.Probe, putProbe),
		Held:          w.Held,
		Request:       putResources(c, "request", w.Request),
		Devices:       each(c, "devices", w.Devices, putDeviceAsk),
		Ports:         each(c, "ports", w.Ports, putPortAsk),
		Volumes:       each(c, "volumes", w.Volumes, putVolumeAsk),
		Numa:          w.NUMA,
		Tasks:         each(c, "tasks", w.Tasks, putTask),
		Datacenters:   list(w.Datacenters),
		NodePool:      w.NodePool,
		Constraints:   each(c, "constraints", w.Constraints, putConstraint),
		Affinities:    each(c, "affinities", w.Affinities, putAffinity),
		Spreads:       each(c, "spreads", w.Spreads, putSpread),
		MinDomains:    int64(w.MinDomains),
		Update:        putOptional(c, "update", w.Update, putUpdate),
		Migrate:       putOptional(c, "migrate", w.Migrate, putMigrate),
		Reschedule:    putOptional(c, "reschedule", w.Reschedule, putReschedule),
		Disconnect:    putOptional(c, "disconnect", w.Disconnect, putDisconnect),
		Disruption:    putOptional(c, "disruption", w.Disruption, putDisruption),
		Shifting:      w.Shifting,
		Periodic:      putOptional(c, "periodic", w.Periodic, putPeriodic),
		Parameterized: putOptional(c, "parameterized", w.Parameterized, putParameterized),
		Parent:        w.Parent,
	}
}

func getWorkload(c *coder, w *psgv1.Workload) psg.Workload {
	return psg.Workload{
		ID:            getWorkloadID(c, "id", w.GetId()),
		Version:       w.GetVersion(),
		Region:        w.GetRegion(),
		Type:          types.get(c, "type", w.GetType()),
		Count:         getInt(c, "count", w.GetCount()),
		Priority:      getInt(c, "priority", w.GetPriority()),
		Tenant:        psg.TenantID(w.GetTenant()),
		Tier:          w.GetTier(),
		Kind:          w.GetKind(),
		Labels:        dict(w.GetLabels()),
		Meta:          dict(w.GetMeta()),
		Preemptible:   w.GetPreemptible(),
		Deadline:      getDuration(c, "deadline", w.GetDeadline()),
		Gang:          psg.GangID(w.GetGang()),
		Probe:         getOptional(c, "probe", w.GetProbe(), getProbe),
		Held:          w.GetHeld(),
		Request:       getResources(c, "request", w.GetRequest()),
		Devices:       each(c, "devices", w.GetDevices(), getDeviceAsk),
		Ports:         each(c, "ports", w.GetPorts(), getPortAsk),
		Volumes:       each(c, "volumes", w.GetVolumes(), getVolumeAsk),
		NUMA:          w.GetNuma(),
		Tasks:         each(c, "tasks", w.GetTasks(), getTask),
		Datacenters:   list(w.GetDatacenters()),
		NodePool:      w.GetNodePool(),
		Constraints:   each(c, "constraints", w.GetConstraints(), getConstraint),
		Affinities:    each(c, "affinities", w.GetAffinities(), getAffinity),
		Spreads:       each(c, "spreads", w.GetSpreads(), getSpread),
		MinDomains:    getInt(c, "min_domains", w.GetMinDomains()),
		Update:        getOptional(c, "update", w.GetUpdate(), getUpdate),
		Migrate:       getOptional(c, "migrate", w.GetMigrate(), getMigrate),
		Reschedule:    getOptional(c, "reschedule", w.GetReschedule(), getReschedule),
		Disconnect:    getOptional(c, "disconnect", w.GetDisconnect(), getDisconnect),
		Disruption:    getOptional(c, "disruption", w.GetDisruption(), getDisruption),
		Shifting:      w.GetShifting(),
		Periodic:      getOptional(c, "periodic", w.GetPeriodic(), getPeriodic),
		Parameterized: getOptional(c, "parameterized", w.GetParameterized(), getParameterized),
		Parent:        w.GetParent(),
	}
}

func putTask(c *coder, t psg.Task) *psgv1.Task {
	return &psgv1.Task{
		Name:      t.Name,
		Driver:    t.Driver,
		Lifecycle: lifecycles.put(c, "lifecycle", t.Lifecycle),
		Request:   putResources(c, "request", t.Request),
		Meta:      dict(t.Meta),
	}
}

func getTask(c *coder, t *psgv1.Task) psg.Task {
	return psg.Task{
		Name:      t.GetName(),
		Driver:    t.GetDriver(),
		Lifecycle: lifecycles.get(c, "lifecycle", t.GetLifecycle()),
		Request:   getResources(c, "request", t.GetRequest()),
		Meta:      dict(t.GetMeta()),
	}
}

func putDeviceAsk(c *coder, d psg.DeviceAsk) *psgv1.DeviceAsk {
	return &psgv1.DeviceAsk{
		Name:        d.Name,
		Task:        d.Task,
		Count:       int64(d.Count),
		MilliGpu:    d.MilliGPU,
		MemoryMb:    d.MemoryMB,
		Profile:     d.Profile,
		Linked:      d.Linked,
		Constraints: each(c, "constraints", d.Constraints, putConstraint),
		Affinities:  each(c, "affinities", d.Affinities, putAffinity),
	}
}

func getDeviceAsk(c *coder, d *psgv1.DeviceAsk) psg.DeviceAsk {
	return psg.DeviceAsk{
		Name:        d.GetName(),
		Task:        d.GetTask(),
		Count:       getInt(c, "count", d.GetCount()),
		MilliGPU:    d.GetMilliGpu(),
		MemoryMB:    d.GetMemoryMb(),
		Profile:     d.GetProfile(),
		Linked:      d.GetLinked(),
		Constraints: each(c, "constraints", d.GetConstraints(), getConstraint),
		Affinities:  each(c, "affinities", d.GetAffinities(), getAffinity),
	}
}

func putPortAsk(_ *coder, p psg.PortAsk) *psgv1.PortAsk {
	return &psgv1.PortAsk{
		Label:           p.Label,
		Static:          int64(p.Static),
		To:              int64(p.To),
		HostNetwork:     p.HostNetwork,
		IgnoreCollision: p.IgnoreCollision,
	}
}

func getPortAsk(c *coder, p *psgv1.PortAsk) psg.PortAsk {
	return psg.PortAsk{
		Label:           p.GetLabel(),
		Static:          getInt(c, "static", p.GetStatic()),
		To:              getInt(c, "to", p.GetTo()),
		HostNetwork:     p.GetHostNetwork(),
		IgnoreCollision: p.GetIgnoreCollision(),
	}
}

func putVolumeAsk(_ *coder, v psg.VolumeAsk) *psgv1.VolumeAsk {
	return &psgv1.VolumeAsk{
		Name:       v.Name,
		Type:       v.Type,
		Source:     v.Source,
		ReadOnly:   v.ReadOnly,
		PerAlloc:   v.PerAlloc,
		Sticky:     v.Sticky,
		AccessMode: v.AccessMode,
		Attachment: v.Attachment,
	}
}

func getVolumeAsk(_ *coder, v *psgv1.VolumeAsk) psg.VolumeAsk {
	return psg.VolumeAsk{
		Name:       v.GetName(),
		Type:       v.GetType(),
		Source:     v.GetSource(),
		ReadOnly:   v.GetReadOnly(),
		PerAlloc:   v.GetPerAlloc(),
		Sticky:     v.GetSticky(),
		AccessMode: v.GetAccessMode(),
		Attachment: v.GetAttachment(),
	}
}
