package agent

import "github.com/psgrid/psg"

// Use is what one task of an allocation used between the last two readings of
// its control groups. A value that is not known, because the kernel has no such
// file or there is no reading before, is NaN: no comparison with it holds.
type Use struct {
	Alloc   psg.AllocID
	Task    string // empty where the control group belongs to the whole allocation
	Cgroups Cgroups

	CPUPercent       float64 // of one core: 250 is two and a half cores
	ThrottledPercent float64 // share of the time in which its CPU quota held it back
	MemoryMB         float64 // charged to it, page cache included
	WorkingSetMB     float64 // MemoryMB less the page cache that can go first
	MemoryLimitMB    float64 // +Inf when it has none
	ReadMBps         float64 // MiB a second from block devices
	WriteMBps        float64
	ReadIOPS         float64 // operations a second
	WriteIOPS        float64

	// The share of the time in which some of its tasks waited for the resource;
	// only the unified hierarchy (v2) tells.
	CPUPressurePercent    float64
	MemoryPressurePercent float64
	IOPressurePercent     float64

	OOMKills uint64 // its processes that the kernel killed for memory, since its control group was made
}

// Cgroups are the directories of a task's control groups, one per controller;
// on the unified hierarchy they are all the same. Empty where it has none of
// its own.
type Cgroups struct {
	Unified bool // version 2: the files have other names
	CPU     string
	CPUAcct string
	Memory  string
	IO      string // blkio of version 1
	Freezer string
}
