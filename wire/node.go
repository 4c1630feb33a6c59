package wire

import (
	"github.com/psgrid/psg"
	psgv1 "github.com/psgrid/psg/wire/psg/v1"
)

func putNode(c *coder, n psg.Node) *psgv1.Node {
	return &psgv1.Node{
		Id:           string(n.ID),
		Version:      n.Version,
		Name:         n.Name,
		Region:       n.Region,
		Datacenter:   n.Datacenter,
		Pool:         n.Pool,
		Class:        n.Class,
		Domain:       n.Domain,
		Attributes:   dict(n.Attributes),
		Meta:         dict(n.Meta),
		Ready:        n.Ready,
		Draining:     n.Draining,
		Drivers:      list(n.Drivers),
		Capacity:     putResources(c, "capacity", n.Capacity),
		Devices:      each(c, "devices", n.Devices, putDevice),
		StaticPorts:  putInts(n.StaticPorts),
		DynamicPorts: putPortRange(n.DynamicPorts),
		HostVolumes:  each(c, "host_volumes", n.HostVolumes, putHostVolume),
		CsiPlugins:   list(n.CSIPlugins),
		HostNetworks: list(n.HostNetworks),
		Telemetry:    putOptional(c, "telemetry", n.Telemetry, putTelemetry),
		Projection:   putOptional(c, "projection", n.Projection, putProjection),
	}
}

func getNode(c *coder, n *psgv1.Node) psg.Node {
	return psg.Node{
		ID:           psg.NodeID(n.GetId()),
		Version:      n.GetVersion(),
		Name:         n.GetName(),
		Region:       n.GetRegion(),
		Datacenter:   n.GetDatacenter(),
		Pool:         n.GetPool(),
		Class:        n.GetClass(),
		Domain:       n.GetDomain(),
		Attributes:   dict(n.GetAttributes()),
		Meta:         dict(n.GetMeta()),
		Ready:        n.GetReady(),
		Draining:     n.GetDraining(),
		Drivers:      list(n.GetDrivers()),
		Capacity:     getResources(c, "capacity", n.GetCapacity()),
		Devices:      each(c, "devices", n.GetDevices(), getDevice),
		StaticPorts:  getInts(c, "static_ports", n.GetStaticPorts()),
		DynamicPorts: getPortRange(c, n.GetDynamicPorts()),
		HostVolumes:  each(c, "host_volumes", n.GetHostVolumes(), getHostVolume),
		CSIPlugins:   list(n.GetCsiPlugins()),
		HostNetworks: list(n.GetHostNetworks()),
		Telemetry:    getOptional(c, "telemetry", n.GetTelemetry(), getTelemetry),
		Projection:   getOptional(c, "projection", n.GetProjection(), getProjection),
	}
}

func putPortRange(r psg.PortRange) *psgv1.PortRange {
	if r == (psg.PortRange{}) {
		return nil
	}
	return &psgv1.PortRange{Min: int64(r.Min), Max: int64(r.Max)}
}

func getPortRange(c *coder, r *psgv1.PortRange) psg.PortRange {
	return psg.PortRange{
		Min: getInt(c, "dynamic_ports.min", r.GetMin()),
		Max: getInt(c, "dynamic_ports.max", r.GetMax()),
	}
}

func putHostVolume(_ *coder, v psg.HostVolume) *psgv1.HostVolume {
	return &psgv1.HostVolume{Name: v.Name, ReadOnly: v.ReadOnly}
}

func getHostVolume(_ *coder, v *psgv1.HostVolume) psg.HostVolume {
	return psg.HostVolume{Name: v.GetName(), ReadOnly: v.GetReadOnly()}
}

func putDevice(_ *coder, d psg.Device) *psgv1.Device {
	return &psgv1.Device{
		Id:         string(d.ID),
		Vendor:     d.Vendor,
		Type:       d.Type,
		Model:      d.Model,
		Attributes: dict(d.Attributes),
		MemoryMb:   d.MemoryMB,
		Profiles:   list(d.Profiles),
		Numa:       int64(d.NUMA),
		Link:       d.Link,
		Healthy:    d.Healthy,
		Foreign:    d.Foreign,
		Reported:   d.Reported,
	}
}

func getDevice(c *coder, d *psgv1.Device) psg.Device {
	return psg.Device{
		ID:         psg.DeviceID(d.GetId()),
		Vendor:     d.GetVendor(),
		Type:       d.GetType(),
		Model:      d.GetModel(),
		Attributes: dict(d.GetAttributes()),
		MemoryMB:   d.GetMemoryMb(),
		Profiles:   list(d.GetProfiles()),
		NUMA:       getInt(c, "numa", d.GetNuma()),
		Link:       d.GetLink(),
		Healthy:    d.GetHealthy(),
		Foreign:    d.GetForeign(),
		Reported:   d.GetReported(),
	}
}

func putInventory(c *coder, i psg.Inventory) *psgv1.Inventory {
	return &psgv1.Inventory{Devices: each(c, "devices", i.Devices, putDevice)}
}

func getInventory(c *coder, i *psgv1.Inventory) psg.Inventory {
	return psg.Inventory{Devices: each(c, "devices", i.GetDevices(), getDevice)}
}

func putProjection(c *coder, p psg.Projection) *psgv1.Projection {
	return &psgv1.Projection{
		At:      putTime(c, "at", p.At),
		Horizon: putDuration(p.Horizon),
		Mean:    putResources(c, "mean", p.Mean),
		Upper:   putResources(c, "upper", p.Upper),
	}
}

func getProjection(c *coder, p *psgv1.Projection) psg.Projection {
	return psg.Projection{
		At:      getTime(c, "at", p.GetAt()),
		Horizon: getDuration(c, "horizon", p.GetHorizon()),
		Mean:    getResources(c, "mean", p.GetMean()),
		Upper:   getResources(c, "upper", p.GetUpper()),
	}
}
