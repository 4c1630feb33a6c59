package shim

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

// NodeFromAPI turns a node as Nomad's API describes it into a psg.Node of a
// region. Its capacity is what Nomad's scheduler may hand out. What Nomad
// neither measures nor limits - I/O operations, bandwidth of unknown links - has
// no limit here either.
func NodeFromAPI(n *api.Node, region string) (psg.Node, error) {
	node := psg.Node{
		ID:         psg.NodeID(n.ID),
		Version:    n.ModifyIndex,
		Name:       n.Name,
		Region:     region,
		Datacenter: n.Datacenter,
		Pool:       n.NodePool,
		Class:      n.NodeClass,
		Attributes: n.Attributes,
		Meta:       n.Meta,
		Draining:   n.Drain || n.DrainStrategy != nil,
	}
	for _, name := range slices.Sorted(maps.Keys(n.Drivers)) {
		if driver := n.Drivers[name]; driver != nil && driver.Healthy {
			node.Drivers = append(node.Drivers, name)
		}
	}
	// A node all of whose drivers are unwell can run nothing, while none known
	// at all means that nobody has looked.
	usable := len(node.Drivers) > 0 || len(n.Drivers) == 0
	node.Ready = n.Status == api.NodeStatusReady && n.SchedulingEligibility == api.NodeSchedulingEligible && !node.Draining && usable
	nodeResources(&node, n.NodeResources)
	nodeVolumes(&node, n)
	if err := nodeReserved(&node, n.ReservedResources); err != nil {
		return psg.Node{}, fmt.Errorf("node %q: %w", n.ID, err)
	}
	return node, nil
}

func nodeResources(node *psg.Node, r *api.NodeResources) {
	node.Capacity[psg.IOPS] = psg.MaxQuantity
	if r == nil {
		return
	}
	node.Capacity[psg.CPU] = r.Cpu.CpuShares
	node.Capacity[psg.Cores] = int64(len(r.Cpu.ReservableCpuCores))
	node.Capacity[psg.Memory] = r.Memory.MemoryMB
	node.Capacity[psg.Disk] = r.Disk.DiskMB
	node.Capacity[psg.Network] = bandwidth(r.Networks)
	node.DynamicPorts = psg.PortRange{Min: r.MinDynamicPort, Max: r.MaxDynamicPort}
	for _, group := range r.Devices {
		node.Devices = append(node.Devices, groupDevices(group)...)
	}
	slices.SortFunc(node.Devices, func(a, b psg.Device) int { return strings.Compare(string(a.ID), string(b.ID)) })
}

// bandwidth adds up the links; each stands once for every address it has.
func bandwidth(networks []*api.NetworkResource) int64 {
	links := map[string]int64{}
	for _, n := range networks {
		if n != nil && n.MBits != nil {
			links[n.Device] = max(links[n.Device], int64(*n.MBits))
		}
	}
	var sum int64
	for _, mbits := range links {
		sum += mbits
	}
	if sum == 0 {
		return psg.MaxQuantity
	}
	return sum
}

func groupDevices(group *api.NodeDeviceResource) []psg.Device {
	attributes := make(map[string]string, len(group.Attributes))
	for name, a := range group.Attributes {
		if a != nil {
			attributes[name] = attributeText(a)
		}
	}
	var devices []psg.Device
	for _, instance := range group.Instances {
		devices = append(devices, psg.Device{
			ID:         psg.DeviceID(instance.ID),
			Vendor:     group.Vendor,
			Type:       group.Type,
			Model:      group.Name,
			Attributes: attributes,
			MemoryMB:   mebibytes(group.Attributes["memory"]),
			NUMA:       -1,
			Healthy:    instance.Healthy,
		})
	}
	return devices
}

// attributeText writes a device attribute as constraints compare it: the value,
// then its unit.
func attributeText(a *api.Attribute) string {
	var text string
	switch {
	case a.IntVal != nil:
		text = strconv.FormatInt(*a.IntVal, 10)
	case a.FloatVal != nil:
		text = strconv.FormatFloat(*a.FloatVal, 'f', -1, 64)
	case a.BoolVal != nil:
		return strconv.FormatBool(*a.BoolVal)
	case a.StringVal != nil:
		return *a.StringVal
	}
	if a.Unit != "" {
		text += " " + a.Unit
	}
	return text
}

// mebibytes reads an amount of memory; 0 means that it is not known.
func mebibytes(a *api.Attribute) int64 {
	if a == nil {
		return 0
	}
	var value float64
	switch {
	case a.IntVal != nil:
		value = float64(*a.IntVal)
	case a.FloatVal != nil:
		value = *a.FloatVal
	}
	const mebibyte = 1 << 20
	scale := map[string]float64{
		"": mebibyte, "B": 1,
		"kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
		"KiB": 1 << 10, "MiB": mebibyte, "GiB": 1 << 30, "TiB": 1 << 40,
	}[a.Unit]
	return int64(math.Min(value*scale/mebibyte, psg.MaxQuantity))
}

func nodeVolumes(node *psg.Node, n *api.Node) {
	for _, name := range slices.Sorted(maps.Keys(n.HostVolumes)) {
		if v := n.HostVolumes[name]; v != nil {
			node.HostVolumes = append(node.HostVolumes, psg.HostVolume{Name: name, ReadOnly: v.ReadOnly})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(n.CSINodePlugins)) {
		if plugin := n.CSINodePlugins[name]; plugin != nil && plugin.Healthy {
			node.CSIPlugins = append(node.CSIPlugins, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(n.HostNetworks)) {
		if name != defaultNetwork {
			node.HostNetworks = append(node.HostNetworks, name)
		}
	}
}

// nodeReserved takes away what the host keeps for itself.
func nodeReserved(node *psg.Node, r *api.NodeReservedResources) error {
	if r == nil {
		return nil
	}
	node.Capacity[psg.CPU] -= int64(r.Cpu.CpuShares)
	node.Capacity[psg.Memory] -= int64(r.Memory.MemoryMB)
	node.Capacity[psg.Disk] -= int64(r.Disk.DiskMB)
	node.Capacity = node.Capacity.Max(psg.Resources{})
	var err error
	node.StaticPorts, err = portList(r.Networks.ReservedHostPorts)
	return err
}

// portList reads ports and ranges of them, "22,80,8500-8600", in ascending
// order.
func portList(text string) ([]int, error) {
	var ports []int
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		low, high, isRange := strings.Cut(part, "-")
		first, err := strconv.ParseUint(low, 10, 16)
		last := first
		if err == nil && isRange {
			last, err = strconv.ParseUint(high, 10, 16)
		}
		if err != nil || last < first {
			return nil, fmt.Errorf("reserved ports %s: %s is no port and no range", quote(text), quote(part))
		}
		for port := first; port <= last; port++ {
			ports = append(ports, int(port))
		}
	}
	slices.Sort(ports)
	return slices.Compact(ports), nil
}
