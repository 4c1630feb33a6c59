package shim

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

// allocation is what a Watcher reads of one allocation. Nomad's list and its
// event stream write it alike.
type allocation struct {
	ID                 string
	Namespace          string
	JobID              string
	TaskGroup          string
	NodeID             string
	DesiredStatus      string
	DesiredDescription string
	ClientStatus       string
	ClientDescription  string
	AllocatedResources *allocatedResources
	TaskStates         map[string]*api.TaskState
	ModifyIndex        uint64
	CreateTime         int64 // Unix time in nanoseconds, as is ModifyTime
	ModifyTime         int64
}

// allocatedResources is api.AllocatedResources with the lifecycles, which decide
// what an allocation's tasks hold at once.
type allocatedResources struct {
	Tasks          map[string]*api.AllocatedTaskResources
	TaskLifecycles map[string]*api.TaskLifecycle
	Shared         api.AllocatedSharedResources
}

func (a *allocation) job() jobKey { return jobKey{a.Namespace, a.JobID} }

func (a *allocation) workload() psg.WorkloadID {
	return psg.WorkloadID{Namespace: a.Namespace, Job: a.JobID, Group: a.TaskGroup}
}

// over reports whether the allocation has ended on its node, or its node is
// lost: as Nomad counts it, room is free only then, not when it is to be stopped.
func (a *allocation) over() bool {
	switch a.ClientStatus {
	case api.AllocClientStatusComplete, api.AllocClientStatusFailed, api.AllocClientStatusLost:
		return true
	}
	return false
}

// stops reports whether Nomad stops the allocation: its tasks have their kill_timeout
// yet.
func (a *allocation) stops() bool {
	return a.DesiredStatus == api.AllocDesiredStatusStop || a.DesiredStatus == api.AllocDesiredStatusEvict
}

func (a *allocation) freed() psg.Freed {
	state := psg.Released
	if a.ClientStatus == api.AllocClientStatusLost {
		state = psg.Lost
	}
	reason := a.ClientStatus
	if why := cmp.Or(a.DesiredDescription, a.ClientDescription); why != "" {
		reason += ": " + why
	}
	return psg.Freed{Ask: psg.RequestID(a.ID), State: state, Reason: reason, At: time.Unix(0, a.ModifyTime).UTC()}
}

// running reports whether all tasks that make up the allocation's main part run.
func (a *allocation) running(mains []string) bool {
	if a.ClientStatus != api.AllocClientStatusRunning {
		return false
	}
	for _, name := range mains {
		if state := a.TaskStates[name]; state == nil || state.State != "running" {
			return false
		}
	}
	return true
}

// hasTask reports whether one of the named tasks is part of the allocation,
// which may be of another version of its job than the one known.
func (a *allocation) hasTask(names []string) bool {
	if a.AllocatedResources == nil {
		return len(names) > 0
	}
	return slices.ContainsFunc(names, func(name string) bool { return a.AllocatedResources.Tasks[name] != nil })
}

// placement is what the allocation holds, for one that Nomad placed by itself.
func (a *allocation) placement(w psg.Workload) psg.Placement {
	since := time.Unix(0, a.CreateTime).UTC()
	p := psg.Placement{
		Ask: psg.Ask{
			ID:       psg.RequestID(a.ID),
			Workload: w.ID,
			Alloc:    psg.AllocID(a.ID),
			Node:     psg.NodeID(a.NodeID),
			At:       since,
		},
		Node:  psg.NodeID(a.NodeID),
		State: psg.Running,
		Since: since,
	}
	if r := a.AllocatedResources; r != nil {
		p.Request = r.peak()
		p.Ports = r.ports()
		p.Devices = r.devices(w.Devices)
	}
	return p
}

func (r *allocatedResources) peak() psg.Resources {
	var tasks []psg.Task
	for name, held := range r.Tasks {
		task := psg.Task{Name: name, Lifecycle: psg.Main, Request: heldByTask(held)}
		if l := r.TaskLifecycles[name]; l != nil {
			task.Lifecycle = (&translator{}).lifecycle("", l)
		}
		tasks = append(tasks, task)
	}
	request := peak(tasks)
	request[psg.Disk] = r.Shared.DiskMB
	request[psg.Network] += mbits(r.Shared.Networks)
	return request
}

// heldByTask is what one task was given; as in a task that asks, reserved cores
// stand for their share of CPU too.
func heldByTask(t *api.AllocatedTaskResources) psg.Resources {
	var request psg.Resources
	if t == nil {
		return request
	}
	request[psg.Cores] = int64(len(t.Cpu.ReservedCores))
	if request[psg.Cores] == 0 {
		request[psg.CPU] = t.Cpu.CpuShares
	}
	request[psg.Memory] = t.Memory.MemoryMB
	request[psg.MemoryMax] = max(t.Memory.MemoryMaxMB, t.Memory.MemoryMB)
	request[psg.Network] = mbits(t.Networks)
	return request
}

func mbits(networks []*api.NetworkResource) int64 {
	var sum int64
	for _, n := range networks {
		sum += int64(n.Megabits())
	}
	return sum
}

// ports are the static ports held, by host network and number.
func (r *allocatedResources) ports() []psg.PortShare {
	networks := slices.Clone(r.Shared.Networks)
	for _, name := range slices.Sorted(maps.Keys(r.Tasks)) {
		if r.Tasks[name] != nil {
			networks = append(networks, r.Tasks[name].Networks...)
		}
	}
	var shares []psg.PortShare
	for _, n := range networks {
		if n == nil {
			continue
		}
		for _, port := range n.ReservedPorts {
			shares = append(shares, psg.PortShare{Label: port.Label, Port: port.Value, Host: cmp.Or(port.HostNetwork, defaultNetwork)})
		}
	}
	slices.SortFunc(shares, func(a, b psg.PortShare) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Port, b.Port), cmp.Compare(a.Label, b.Label))
	})
	return shares
}

// devices are the cards held, whole, each for the ask that it answers.
func (r *allocatedResources) devices(asks []psg.DeviceAsk) []psg.DeviceShare {
	var shares []psg.DeviceShare
	for _, name := range slices.Sorted(maps.Keys(r.Tasks)) {
		if r.Tasks[name] == nil {
			continue
		}
		for _, held := range r.Tasks[name].Devices {
			card := psg.Device{Vendor: held.Vendor, Type: held.Type, Model: held.Name}
			ask := slices.IndexFunc(asks, func(d psg.DeviceAsk) bool { return d.Task == name && card.Named(d.Name) })
			for _, id := range held.DeviceIDs {
				shares = append(shares, psg.DeviceShare{Device: psg.DeviceID(id), Ask: max(ask, 0), MilliGPU: wholeCard})
			}
		}
	}
	return shares
}
