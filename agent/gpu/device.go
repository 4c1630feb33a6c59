//go:build cgo

package gpu

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/psgrid/psg"
)

// health is what keeps a card from being used.
type health struct {
	broken     bool // errors of its memory that could not be corrected, since the driver was loaded
	unmappable bool // rows of its memory that failed, for which no spare ones are left
}

// why says so; empty if the card is well.
func (h health) why() string {
	switch {
	case h.unmappable:
		return "memory has failed and cannot be remapped: the card is to be replaced"
	case h.broken:
		return "uncorrected memory errors: the card is to be reset"
	}
	return ""
}

func unmappable(device nvml.Device) bool {
	_, _, _, failed, code := device.GetRemappedRows()
	return code == nvml.SUCCESS && failed
}

// devices are what can be handed out of a card that answers.
func (s *Source) devices(i int, device nvml.Device, h health, parts []nvml.Device, cut bool) []psg.Device {
	known := &s.driver.cards[i]
	if known.ID == "" {
		*known = s.describe(i, device)
	}
	if known.ID == "" {
		return nil // it cannot be named, nor handed out
	}
	found := []psg.Device{*known}
	if cut {
		found = instances(*known, parts)
	}
	if why := h.why(); why != "" {
		for n := range found {
			found[n] = unwell(found[n], why)
		}
	}
	return found
}

// lost are the devices of a card that answers no more, as they were before.
func (s *Source) lost(i int) []psg.Device {
	card := string(s.driver.cards[i].ID)
	if card == "" {
		return nil // it never answered
	}
	var gone []psg.Device
	for _, d := range s.found.devices {
		if string(d.ID) == card || d.Attributes["card"] == card {
			gone = append(gone, unwell(d, "the card does not answer"))
		}
	}
	return gone
}

// describe asks a card for what never changes. It has no ID if it does not tell.
func (s *Source) describe(i int, device nvml.Device) psg.Device {
	id, code := device.GetUUID()
	name, code2 := device.GetName()
	if code != nvml.SUCCESS || code2 != nvml.SUCCESS {
		return psg.Device{}
	}
	d := psg.Device{
		ID: psg.DeviceID(id), Vendor: "nvidia", Type: "gpu", Model: name, NUMA: -1, Healthy: true,
		Attributes: map[string]string{},
	}
	d = sized(d, device)
	if s.driver.version != "" {
		d.Attributes["driver_version"] = s.driver.version
	}
	if major, minor, code := device.GetCudaComputeCapability(); code == nvml.SUCCESS {
		d.Attributes["compute_capability"] = strconv.Itoa(major) + "." + strconv.Itoa(minor)
	}
	for name, clock := range map[string]nvml.ClockType{"cores_clock": nvml.CLOCK_SM, "memory_clock": nvml.CLOCK_MEM} {
		if mhz, code := device.GetMaxClockInfo(clock); code == nvml.SUCCESS {
			d.Attributes[name] = strconv.Itoa(int(mhz)) + " MHz"
		}
	}
	if milliwatts, code := device.GetPowerManagementLimit(); code == nvml.SUCCESS {
		d.Attributes["power"] = strconv.Itoa(int(milliwatts/1000)) + " W"
	}
	if pci, code := device.GetPciInfo(); code == nvml.SUCCESS {
		d.NUMA = numaOf(s.config.Sys, pci.BusId[:])
	}
	if n := s.driver.topology[i]; n.linked > 0 {
		d.Link = "nvlink-" + strconv.Itoa(n.island)
	}
	return d
}

// sized says how much memory a device has.
func sized(d psg.Device, device nvml.Device) psg.Device {
	if memory, code := device.GetMemoryInfo(); code == nvml.SUCCESS {
		d.MemoryMB = int64(min(memory.Total/mib, psg.MaxQuantity))
		d.Attributes["memory"] = strconv.FormatInt(d.MemoryMB, 10) + " MiB"
	}
	return d
}

// instances are the parts of a card that is cut: they have no links, and can each
// be handed out once, by their profile too.
func instances(card psg.Device, parts []nvml.Device) []psg.Device {
	var found []psg.Device
	for _, part := range parts {
		id, code := part.GetUUID()
		if code != nvml.SUCCESS || id == "" {
			continue
		}
		d := card
		d.ID, d.Link, d.MemoryMB = psg.DeviceID(id), "", 0
		d.Attributes = maps.Clone(card.Attributes)
		delete(d.Attributes, "memory")
		d.Attributes["card"] = string(card.ID)
		if name, code := part.GetName(); code == nvml.SUCCESS {
			d.Model = name
			if _, profile, ok := strings.Cut(name, " MIG "); ok {
				d.Profiles = []string{profile}
			}
		}
		found = append(found, sized(d, part))
	}
	return found
}

// numaOf is the NUMA node that a card is at, by its address on the PCI bus, which
// NVML writes with eight digits of the domain and the kernel with four; -1 where
// the kernel does not know.
func numaOf(sys string, address []int8) int {
	var text []byte
	for _, c := range address {
		if c == 0 {
			break
		}
		text = append(text, byte(c))
	}
	first, rest, _ := strings.Cut(strings.ToLower(string(text)), ":")
	domain, err := strconv.ParseUint(first, 16, 32)
	if err != nil || strings.Contains(rest, "/") {
		return -1
	}
	node, err := os.ReadFile(filepath.Join(sys, "bus/pci/devices", fmt.Sprintf("%04x:%s", domain, rest), "numa_node"))
	if err != nil {
		return -1
	}
	number, err := strconv.Atoi(strings.TrimSpace(string(node)))
	if err != nil || number < 0 {
		return -1
	}
	return number
}
