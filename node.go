package psg

// Node is one machine that can run workloads. It is a value: a change makes a
// new one with a higher Version.
type Node struct {
	ID         NodeID            `json:"id"`
	Version    uint64            `json:"version"` // rises with each change; Nomad's ModifyIndex
	Name       string            `json:"name"`
	Region     string            `json:"region,omitempty"`
	Datacenter string            `json:"datacenter"`
	Pool       string            `json:"pool,omitempty"`
	Class      string            `json:"class,omitempty"`
	Domain     string            `json:"domain,omitempty"`     // failure domain; the datacenter when empty
	Attributes map[string]string `json:"attributes,omitempty"` // Nomad's attr.NAME, without the prefix
	Meta       map[string]string `json:"meta,omitempty"`

	Ready    bool     `json:"ready"` // up, eligible and not draining
	Draining bool     `json:"draining,omitempty"`
	Drivers  []string `json:"drivers,omitempty"` // healthy task drivers, sorted; none means unknown, any is assumed

	Capacity     Resources    `json:"capacity"` // what PSG may hand out: total less what the host keeps
	Devices      []Device     `json:"devices,omitempty"`
	StaticPorts  []int        `json:"static_ports,omitempty"` // ports the host keeps, never handed out
	DynamicPorts PortRange    `json:"dynamic_ports"`          // where dynamic ports come from; zero means 20000..32000
	HostVolumes  []HostVolume `json:"host_volumes,omitempty"`
	CSIPlugins   []string     `json:"csi_plugins,omitempty"`
	HostNetworks []string     `json:"host_networks,omitempty"` // named networks besides "default"
	Telemetry    *Telemetry   `json:"telemetry,omitempty"`     // last observation; nil means none yet
	Projection   *Projection  `json:"projection,omitempty"`
}

// PortRange is an inclusive range of ports.
type PortRange struct {
	Min int `json:"min"`
	Max int `json:"max"`
}

// HostVolume is a volume a node offers by name.
type HostVolume struct {
	Name     string `json:"name"`
	ReadOnly bool   `json:"read_only,omitempty"`
}

// Device is one card.
type Device struct {
	ID         DeviceID          `json:"id"`
	Vendor     string            `json:"vendor"`
	Type       string            `json:"type"`                 // "gpu"
	Model      string            `json:"model"`                // "A100"
	Attributes map[string]string `json:"attributes,omitempty"` // values may carry a unit: "40 GiB"
	MemoryMB   int64             `json:"memory_mb"`
	Profiles   []string          `json:"profiles,omitempty"` // MIG profiles it can be cut into
	NUMA       int               `json:"numa"`               // node number; -1 means unknown
	Link       string            `json:"link,omitempty"`     // link island (NVLink); devices with the same one are linked
	Healthy    bool              `json:"healthy"`
	// Foreign says that somebody other than PSG has handed the device out, such
	// as Nomad's own device plugin: it counts as fully used.
	Foreign bool `json:"foreign,omitempty"`
	// Reported says that the node's agent found the device, and that the
	// orchestrator does not know it.
	Reported bool `json:"reported,omitempty"`
}

// Named reports whether the device answers to the name of a DeviceAsk: its
// type, vendor/type, or vendor/type/model.
func (d Device) Named(name string) bool {
	return name == d.Type || name == d.Vendor+"/"+d.Type || name == d.Vendor+"/"+d.Type+"/"+d.Model
}
