package ledger

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/psgrid/psg"
)

// wholeCard is a whole device in milli-GPU.
const wholeCard = 1000

// holdings is what all placements on one node hold together.
type holdings struct {
	request psg.Resources
	devices map[psg.DeviceID]deviceUse
	ports   map[portKey]int // placements that hold it
}

type deviceUse struct {
	milliGPU, memoryMB int64
}

type portKey struct {
	network string
	port    int
}

func newHoldings() *holdings {
	return &holdings{devices: map[psg.DeviceID]deviceUse{}, ports: map[portKey]int{}}
}

func (h *holdings) clone() *holdings {
	return &holdings{h.request, maps.Clone(h.devices), maps.Clone(h.ports)}
}

// fits checks a decision against the node, apart from how the engine found it:
// the two must agree.
func (h *holdings) fits(n *psg.Node, p *psg.Placement) error {
	if n == nil {
		return errors.New("node is not known")
	}
	for d, wanted := range p.Request {
		if psg.Dimension(d) == psg.MemoryMax {
			continue // a ceiling, not an amount that is held
		}
		if free := n.Capacity[d] - h.request[d]; wanted > 0 && wanted > free {
			return fmt.Errorf("%s %d is over the %d free", psg.Dimension(d), wanted, free)
		}
	}
	asked := newHoldings()
	asked.add(p)
	for _, share := range p.Devices {
		if err := h.fitsDevice(n, share.Device, asked.devices[share.Device]); err != nil {
			return err
		}
	}
	for _, port := range p.Ports {
		if key := (portKey{port.Host, port.Port}); h.ports[key] > 0 || asked.ports[key] > 1 {
			return fmt.Errorf("port %d is held", port.Port)
		}
	}
	return nil
}

// fitsDevice checks all that one placement asks of one device.
func (h *holdings) fitsDevice(n *psg.Node, id psg.DeviceID, asked deviceUse) error {
	i := slices.IndexFunc(n.Devices, func(d psg.Device) bool { return d.ID == id })
	if i < 0 {
		return fmt.Errorf("device %s is not on the node", id)
	}
	used, device := h.devices[id], n.Devices[i]
	if free := wholeCard - used.milliGPU; asked.milliGPU > free {
		return fmt.Errorf("device %s has %d milli-GPU free of %d wanted", id, free, asked.milliGPU)
	}
	if free := device.MemoryMB - used.memoryMB; device.MemoryMB > 0 && asked.memoryMB > free {
		return fmt.Errorf("device %s has %d MiB free of %d wanted", id, free, asked.memoryMB)
	}
	return nil
}

func (h *holdings) add(p *psg.Placement)    { h.change(p, 1) }
func (h *holdings) remove(p *psg.Placement) { h.change(p, -1) }

func (h *holdings) empty() bool {
	return h.request == (psg.Resources{}) && len(h.devices) == 0 && len(h.ports) == 0
}

func (h *holdings) change(p *psg.Placement, sign int64) {
	for d, amount := range p.Request {
		h.request[d] += sign * amount
	}
	for _, share := range p.Devices {
		use := h.devices[share.Device]
		use.milliGPU += sign * share.MilliGPU
		use.memoryMB += sign * share.MemoryMB
		if use == (deviceUse{}) {
			delete(h.devices, share.Device)
			continue
		}
		h.devices[share.Device] = use
	}
	for _, port := range p.Ports {
		key := portKey{port.Host, port.Port}
		if h.ports[key] += int(sign); h.ports[key] == 0 {
			delete(h.ports, key)
		}
	}
}
