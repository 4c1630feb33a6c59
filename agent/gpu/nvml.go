//go:build cgo

package gpu

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/agent"
)

// driver is the library and what it has said once.
type driver struct {
	library  nvml.Interface
	ready    bool
	remaps   bool         // it tells of rows of memory that were remapped
	version  string       // of the driver
	topology []neighbours // one per card; empty until asked for
	cards    []psg.Device // likewise: what never changes of them; without an ID until the card answers
	seen     []uint64     // one per card: the time of the last sample of processes' use, µs
}

// New returns the source of the cards of this node. The library is loaded by the
// first Measure.
func New(config Config) *Source {
	var options []nvml.LibraryOption
	if config.Library != "" {
		options = append(options, nvml.WithLibraryPath(config.Library))
	}
	return newSource(config, nvml.New(options...))
}

func newSource(config Config, library nvml.Interface) *Source {
	return &Source{config: config.withDefaults(), driver: driver{library: library}}
}

// maxCards bounds what is measured: the largest servers have 16.
const maxCards = 64

// Measure puts what each card and each allocation on it uses. It fails if the
// library is not there or knows no cards; a card that does not answer fails no
// other, and has "answers" 0.
func (s *Source) Measure(ctx context.Context, put agent.Put) error {
	count, err := s.start()
	if err != nil {
		s.stop()
		s.found.lose(err.Error())
		return err
	}
	var all totals
	var found []psg.Device
	uses := uses{}
	for i := range count {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		device, code := s.driver.library.DeviceGetHandleByIndex(i)
		if code != nvml.SUCCESS {
			put("", card(i, "answers"), 0)
			found = append(found, s.lost(i)...)
			continue
		}
		found = append(found, s.card(i, device, &all, put)...)
		s.processes(i, device, uses)
	}
	all.put(count, put)
	uses.put(put)
	slices.SortFunc(found, func(a, b psg.Device) int { return cmp.Compare(a.ID, b.ID) })
	s.found = inventory{slices.CompactFunc(found, func(a, b psg.Device) bool { return a.ID == b.ID }), true}
	return nil
}

// start returns how many cards there are, after it has loaded the library and
// asked for the topology if that was not done before.
func (s *Source) start() (int, error) {
	d := &s.driver
	if !d.ready {
		if code := d.library.Init(); code != nvml.SUCCESS {
			return 0, fmt.Errorf("load NVML: %s", reason(code))
		}
		d.ready = true
		d.remaps = d.library.Extensions().LookupSymbol("nvmlDeviceGetRemappedRows") == nil
		for _, function := range needed {
			if err := d.library.Extensions().LookupSymbol(function); err != nil {
				return 0, fmt.Errorf("load NVML: the driver is too old, as it lacks %s: 450 or later is needed", function)
			}
		}
	}
	count, code := d.library.DeviceGetCount()
	if code != nvml.SUCCESS {
		return 0, fmt.Errorf("count cards: %s", reason(code))
	}
	count = min(count, maxCards)
	if len(d.topology) != count {
		d.topology, d.seen = findNeighbours(d.library, count), make([]uint64, count)
		d.cards = make([]psg.Device, count)
		d.version, _ = d.library.SystemGetDriverVersion()
	}
	return count, nil
}

// needed are the functions that came last of those that are called: the loader
// ends the program when one is called that is missing. They are never written to.
var needed = [...]string{
	"nvmlDeviceGetMigMode", "nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex", "nvmlDeviceGetProcessUtilization",
	"nvmlDeviceGetP2PStatus", "nvmlDeviceGetTopologyCommonAncestor", "nvmlDeviceGetNvLinkState", "nvmlDeviceGetTotalEccErrors",
}

// stop has the library loaded anew next time: a driver that was replaced does
// not answer the one that is loaded.
func (s *Source) stop() {
	if s.driver.ready {
		s.driver.library.Shutdown() // what it says changes nothing
		s.driver.ready, s.driver.topology, s.driver.cards = false, nil, nil
	}
}

// reason is a code in words. The library's own can be asked only while it is
// loaded.
func reason(code nvml.Return) string {
	switch code {
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return "there is no such library on this node"
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return "the driver is not loaded"
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return "the library and the driver differ in version"
	case nvml.ERROR_NO_PERMISSION:
		return "not permitted"
	}
	return fmt.Sprintf("NVML code %d", int(code))
}
