//go:build cgo

package gpu

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/psgrid/psg/agent"
)

// neighbours says how one card is joined to the others of its node.
type neighbours struct {
	links  int // NVLinks that are up
	linked int // cards it reaches by NVLink, through switches too
	near   int // cards below the same PCIe host bridge
	island int // the lowest number of the cards that it reaches by NVLink, directly or by others: its own if none
}

func (n neighbours) put(i int, put agent.Put) {
	put("", card(i, "nvlinks"), float64(n.links))
	put("", card(i, "nvlink_cards"), float64(n.linked))
	put("", card(i, "near_cards"), float64(n.near))
	put("", card(i, "island"), float64(n.island))
}

// findNeighbours asks how the cards are joined. What a card does not tell counts
// as not joined.
func findNeighbours(library nvml.Interface, cards int) []neighbours {
	devices, found := make([]nvml.Device, cards), make([]neighbours, cards)
	for i := range devices {
		found[i].island = i
		if device, code := library.DeviceGetHandleByIndex(i); code == nvml.SUCCESS {
			devices[i] = device
			found[i].links = linksUp(device)
		}
	}
	for i, a := range devices {
		for j, b := range devices[:i] {
			if a == nil || b == nil {
				continue
			}
			if level, code := a.GetTopologyCommonAncestor(b); code == nvml.SUCCESS && level <= nvml.TOPOLOGY_HOSTBRIDGE {
				found[i].near++
				found[j].near++
			}
			if status, code := a.GetP2PStatus(b, nvml.P2P_CAPS_INDEX_NVLINK); code == nvml.SUCCESS && status == nvml.P2P_STATUS_OK {
				found[i].linked++
				found[j].linked++
				join(found, found[i].island, found[j].island)
			}
		}
	}
	return found
}

// join makes one island of two.
func join(found []neighbours, a, b int) {
	low, high := min(a, b), max(a, b)
	for i := range found {
		if found[i].island == high {
			found[i].island = low
		}
	}
}

func linksUp(device nvml.Device) (up int) {
	for link := range nvml.NVLINK_MAX_LINKS {
		state, code := device.GetNvLinkState(link)
		if code != nvml.SUCCESS {
			break // there are no further ones
		}
		if state == nvml.FEATURE_ENABLED {
			up++
		}
	}
	return up
}
