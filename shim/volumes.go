package shim

import (
	"maps"
	"slices"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

const (
	hostVolume = "host"
	csiVolume  = "csi"
)

// volumes reads the volumes of a group, by name.
func (t *translator) volumes(path string, volumes map[string]*api.VolumeRequest) []psg.VolumeAsk {
	var asks []psg.VolumeAsk
	for _, key := range slices.Sorted(maps.Keys(volumes)) {
		v, at := volumes[key], field(path, key)
		t.in(field(at, "Type"), v.Type, hostVolume, csiVolume)
		t.require(v.Source != "", field(at, "Source"), "is empty")
		t.require(v.Name == "" || v.Name == key, field(at, "Name"), "%s stands under the key %s", quote(v.Name), quote(key))
		t.require(!v.PerAlloc || !v.Sticky, field(at, "Sticky"), "a volume cannot be both sticky and per_alloc")
		asks = append(asks, psg.VolumeAsk{
			Name:       key,
			Type:       v.Type,
			Source:     v.Source,
			ReadOnly:   v.ReadOnly,
			PerAlloc:   v.PerAlloc,
			Sticky:     v.Sticky,
			AccessMode: v.AccessMode,
			Attachment: v.AttachmentMode,
		})
	}
	return asks
}
