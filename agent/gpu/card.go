//go:build cgo

package gpu

import (
	"strconv"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/agent"
)

const mib = 1 << 20

// card is the name of a metric of one card, by its number.
func card(number int, metric string) string { return "gpu/" + strconv.Itoa(number) + "/" + metric }

// totals are sums over the cards that tell the quantity.
type totals struct {
	busy, busyCards           float64
	memoryUsed, memory, power float64
	memoryCards, powerCards   int
}

func (t *totals) put(cards int, put agent.Put) {
	put("", "gpu_count", float64(cards))
	if t.busyCards > 0 {
		put("", "gpu_busy_percent", t.busy/t.busyCards)
	}
	if t.memoryCards > 0 {
		put("", "gpu_memory_used_mb", t.memoryUsed)
		put("", "gpu_memory_total_mb", t.memory)
	}
	if t.powerCards > 0 {
		put("", "gpu_power_watts", t.power)
	}
}

// card puts what one card tells of itself, and returns the devices that it is.
// What it does not support is left out.
func (s *Source) card(i int, device nvml.Device, all *totals, put agent.Put) []psg.Device {
	memory, code := device.GetMemoryInfo()
	answers := code == nvml.SUCCESS || code == nvml.ERROR_NOT_SUPPORTED
	put("", card(i, "answers"), flag(answers))
	if code == nvml.SUCCESS {
		used, total := float64(memory.Used)/mib, float64(memory.Total)/mib
		all.memoryUsed, all.memory, all.memoryCards = all.memoryUsed+used, all.memory+total, all.memoryCards+1
		put("", card(i, "memory_used_mb"), used)
		put("", card(i, "memory_total_mb"), total)
	}
	if busy, code := device.GetUtilizationRates(); code == nvml.SUCCESS {
		all.busy, all.busyCards = all.busy+float64(busy.Gpu), all.busyCards+1
		put("", card(i, "busy_percent"), float64(busy.Gpu))
		put("", card(i, "memory_busy_percent"), float64(busy.Memory))
	}
	if milliwatts, code := device.GetPowerUsage(); code == nvml.SUCCESS {
		watts := float64(milliwatts) / 1000
		all.power, all.powerCards = all.power+watts, all.powerCards+1
		put("", card(i, "power_watts"), watts)
	}
	if degrees, code := device.GetTemperature(nvml.TEMPERATURE_GPU); code == nvml.SUCCESS {
		put("", card(i, "temperature_celsius"), float64(degrees))
	}
	if errors, code := device.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_CORRECTED, nvml.VOLATILE_ECC); code == nvml.SUCCESS {
		put("", card(i, "ecc_corrected"), float64(errors))
	}
	broken, code := device.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC)
	if code == nvml.SUCCESS {
		put("", card(i, "ecc_uncorrected"), float64(broken))
	}
	parts, cut := partitions(i, device, put)
	s.driver.topology[i].put(i, put)
	if !answers {
		return s.lost(i)
	}
	return s.devices(i, device, health{broken > 0 && code == nvml.SUCCESS, s.driver.remaps && unmappable(device)}, parts, cut)
}

// maxPartitions bounds what is asked of one card: the largest can be cut in
// seven.
const maxPartitions = 16

// partitions puts the MIG instances of a card that can have them, and returns
// them; cut is whether it is in that mode.
func partitions(i int, device nvml.Device, put agent.Put) (parts []nvml.Device, cut bool) {
	mode, _, code := device.GetMigMode()
	if code != nvml.SUCCESS {
		return nil, false
	}
	put("", card(i, "mig"), flag(mode == nvml.DEVICE_MIG_ENABLE))
	if mode != nvml.DEVICE_MIG_ENABLE {
		return nil, false
	}
	places, code := device.GetMaxMigDeviceCount()
	if code != nvml.SUCCESS {
		return nil, true
	}
	for place := range min(places, maxPartitions) {
		part, code := device.GetMigDeviceHandleByIndex(place)
		if code != nvml.SUCCESS {
			continue // nothing is at that place
		}
		parts = append(parts, part)
		if memory, code := part.GetMemoryInfo(); code == nvml.SUCCESS {
			name := "mig/" + strconv.Itoa(place)
			put("", card(i, name+"/memory_used_mb"), float64(memory.Used)/mib)
			put("", card(i, name+"/memory_total_mb"), float64(memory.Total)/mib)
		}
	}
	put("", card(i, "mig_instances"), float64(len(parts)))
	return parts, true
}

func flag(on bool) float64 {
	if on {
		return 1
	}
	return 0
}
