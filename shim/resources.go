package shim

import (
	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

// resources reads what one task asks for, ports and devices apart. A task with
// reserved cores asks for no CPU beside them.
func (t *translator) resources(path string, r *api.Resources) psg.Resources {
	var request psg.Resources
	secrets := t.amount(field(path, "SecretsMB"), r.SecretsMB)
	request[psg.CPU] = t.amount(field(path, "CPU"), r.CPU)
	request[psg.Cores] = t.amount(field(path, "Cores"), r.Cores)
	request[psg.Memory] = t.amount(field(path, "MemoryMB"), r.MemoryMB) + secrets
	request[psg.MemoryMax] = t.memoryMax(path, r, request[psg.Memory], secrets)
	request[psg.IOPS] = t.amount(field(path, "IOPS"), r.IOPS)
	if request[psg.Cores] > 0 {
		t.require(request[psg.CPU] == 0, field(path, "CPU"), "%d beside %d cores: a task has either", request[psg.CPU], request[psg.Cores])
	}
	if disk := t.amount(field(path, "DiskMB"), r.DiskMB); disk > 0 {
		t.fail(field(path, "DiskMB"), "%d: disk is asked for by the group, as ephemeral_disk", disk)
	}
	return request
}

// noLimit is the memory_max that means none.
const noLimit = -1

// memoryMax is the ceiling of a task's memory: memory itself when none is given.
func (t *translator) memoryMax(path string, r *api.Resources, memory, secrets int64) int64 {
	at := field(path, "MemoryMaxMB")
	switch {
	case r.MemoryMaxMB == nil || *r.MemoryMaxMB == 0:
		return memory
	case *r.MemoryMaxMB == noLimit:
		t.lose(at, "-1 is no limit; counted as the memory the task is guaranteed")
		return memory
	}
	ceiling := t.amount(at, r.MemoryMaxMB) + secrets
	t.require(ceiling >= memory, at, "%d is below the %d MiB of memory", ceiling-secrets, memory-secrets)
	return ceiling
}

// amount reads one quantity; a missing one is nothing.
func (t *translator) amount(path string, n *int) int64 {
	switch {
	case n == nil:
		return 0
	case *n < 0:
		t.fail(path, "%d is negative", *n)
		return 0
	case *n > psg.MaxQuantity:
		t.fail(path, "%d is above %d", *n, int64(psg.MaxQuantity))
		return 0
	}
	return int64(*n)
}

// peak is the most that tasks of one instance hold at once, as Nomad computes
// it: the maximum over what runs before main, beside main, and after it.
// Reserved cores, with the CPU they bring, stay reserved for the instance's
// whole life, and so does bandwidth: they add up over all tasks.
func peak(tasks []psg.Task) psg.Resources {
	var pinned, before, beside, after psg.Resources
	for _, task := range tasks {
		request := task.Request
		if request[psg.Cores] > 0 {
			pinned[psg.Cores] += request[psg.Cores]
			pinned[psg.CPU] += request[psg.CPU]
			request[psg.Cores], request[psg.CPU] = 0, 0
		}
		pinned[psg.Network] += request[psg.Network]
		request[psg.Network] = 0
		switch task.Lifecycle {
		case psg.Prestart:
			before = before.Add(request)
		case psg.PrestartSidecar:
			before, beside = before.Add(request), beside.Add(request)
		case psg.Poststop:
			after = after.Add(request)
		default:
			beside = beside.Add(request)
		}
	}
	return beside.Max(before).Max(after).Add(pinned)
}
