//go:build cgo

package gpu

import (
	"maps"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/agent"
)

// use is what an allocation's processes take of all cards together.
type use struct {
	memory, busy float64 // MiB, and percent of one card
	timed        bool    // some card tells how busy processes keep it
}

type uses map[psg.AllocID]*use

func (u uses) put(put agent.Put) {
	for _, alloc := range slices.Sorted(maps.Keys(u)) {
		put(alloc, "gpu_memory_mb", u[alloc].memory)
		if u[alloc].timed {
			put(alloc, "gpu_busy_percent", u[alloc].busy)
		}
	}
}

// maxProcesses bounds how many processes of one card are looked up.
const maxProcesses = 256

// unknownMemory is what the library says where the driver does not tell.
const unknownMemory = 1<<64 - 1

// processes adds what processes take of a card to the allocations they are of.
func (s *Source) processes(i int, device nvml.Device, uses uses) {
	memory := map[uint32]uint64{}
	for _, list := range [...]func() ([]nvml.ProcessInfo, nvml.Return){device.GetComputeRunningProcesses, device.GetGraphicsRunningProcesses} {
		processes, code := list()
		if code != nvml.SUCCESS {
			continue
		}
		for _, p := range processes {
			bytes := p.UsedGpuMemory
			if bytes == unknownMemory {
				bytes = 0
			}
			if _, known := memory[p.Pid]; known || len(memory) < maxProcesses {
				memory[p.Pid] = max(memory[p.Pid], bytes) // one that is on both lists counts once
			}
		}
	}
	if len(memory) == 0 {
		return
	}
	busy, timed := s.busy(i, device)
	for pid, bytes := range memory {
		alloc, ok := agent.AllocOf(s.config.Proc, int(pid))
		if !ok {
			continue
		}
		if uses[alloc] == nil {
			uses[alloc] = &use{}
		}
		u := uses[alloc]
		u.memory += float64(bytes) / mib
		u.busy += float64(busy[pid])
		u.timed = u.timed || timed
	}
}

// busy is how busy processes have kept a card since the time before, in percent;
// those that are not named were idle. timed is false where the card does not
// tell, as one that is cut in parts.
func (s *Source) busy(i int, device nvml.Device) (percent map[uint32]uint32, timed bool) {
	samples, code := device.GetProcessUtilization(s.driver.seen[i])
	switch {
	case code == nvml.ERROR_NOT_FOUND, len(samples) == 0 && code == nvml.ERROR_INSUFFICIENT_SIZE:
		return nil, true // nobody did anything
	case code != nvml.SUCCESS:
		return nil, false
	}
	percent = make(map[uint32]uint32, len(samples))
	latest := make(map[uint32]uint64, len(samples))
	for _, sample := range samples {
		if sample.TimeStamp >= latest[sample.Pid] && sample.SmUtil <= 100 {
			percent[sample.Pid], latest[sample.Pid] = sample.SmUtil, sample.TimeStamp
		}
		s.driver.seen[i] = max(s.driver.seen[i], sample.TimeStamp)
	}
	return percent, true
}
