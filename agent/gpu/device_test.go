//go:build cgo

package gpu

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"

	"github.com/psgrid/psg"
)

// found are the devices of a measurement, by ID.
func found(t *testing.T, s *Source) map[psg.DeviceID]psg.Device {
	t.Helper()
	measure(t, s)
	devices, known := s.Devices()
	if !known || !slices.IsSortedFunc(devices, func(a, b psg.Device) int { return strings.Compare(string(a.ID), string(b.ID)) }) {
		t.Errorf("known %t, in order %+v", known, devices)
	}
	byID := map[psg.DeviceID]psg.Device{}
	for _, d := range devices {
		byID[d.ID] = d
	}
	return byID
}

func (b *box) id(i int) psg.DeviceID { return psg.DeviceID(b.device(i).UUID) }

func TestDevices_AreTheCardsWithAllThatPlacementAsks(t *testing.T) {
	b := newBox(t)
	dir := filepath.Join(b.sys, "bus/pci/devices/0000:3d:00.0")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "numa_node"), []byte("1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := b.source()
	if _, known := s.Devices(); known {
		t.Error("devices are known before anything was measured")
	}
	got := found(t, s)
	if len(got) != 8 || got[b.id(0)].NUMA != -1 {
		t.Fatalf("found %+v", got)
	}
	want := psg.Device{
		ID: b.id(3), Vendor: "nvidia", Type: "gpu", Model: b.device(3).Config.Name, MemoryMB: 40 * 1024, NUMA: 1, Link: "nvlink-0", Healthy: true,
		Attributes: map[string]string{
			"memory": "40960 MiB", "driver_version": "550.54.15", "compute_capability": "8.0",
			"cores_clock": "1001 MHz", "memory_clock": "1002 MHz", "power": "400 W",
		},
	}
	if d := got[b.id(3)]; !d.Equal(want) {
		t.Errorf("found\n%+v, want\n%+v", d, want)
	}
}

func TestDevices_ThatAreUnwellSayWhy(t *testing.T) {
	b := newBox(t)
	s := b.source()
	found(t, s)
	b.device(1).GetTotalEccErrorsFunc = func(kind nvml.MemoryErrorType, _ nvml.EccCounterType) (uint64, nvml.Return) {
		return uint64(kind), nvml.SUCCESS
	}
	b.device(2).GetRemappedRowsFunc = func() (int, int, bool, bool, nvml.Return) { return 0, 9, false, true, nvml.SUCCESS }
	b.device(3).GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) { return nvml.Memory{}, nvml.ERROR_GPU_IS_LOST }
	handle := b.DeviceGetHandleByIndexFunc
	b.DeviceGetHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		if i == 4 {
			return nil, nvml.ERROR_GPU_IS_LOST
		}
		return handle(i)
	}
	for range 2 {
		got := found(t, s)
		for i, want := range []string{"", "uncorrected memory errors", "cannot be remapped", "does not answer", "does not answer", ""} {
			d := got[b.id(i)]
			if d.Healthy != (want == "") || !strings.Contains(d.Attributes["health"], want) || d.MemoryMB != 40*1024 {
				t.Errorf("card %d is %+v, want it to be unwell by %q", i, d, want)
			}
		}
	}
	b.DeviceGetCountFunc = func() (int, nvml.Return) { return 0, nvml.ERROR_LIB_RM_VERSION_MISMATCH }
	if err := s.Measure(t.Context(), func(psg.AllocID, string, float64) {}); err == nil {
		t.Fatal("measured without a driver")
	}
	devices, known := s.Devices()
	if !known || len(devices) != 8 || devices[0].Healthy || !strings.Contains(devices[0].Attributes["health"], "differ in version") {
		t.Errorf("without a driver: known %t, %+v", known, devices)
	}
}

// TestDevices_OfACardThatIsCut: each instance is a device, of its own profile.
func TestDevices_OfACardThatIsCut(t *testing.T) {
	b := newBox(t)
	cut := b.device(2)
	cut.MigMode = nvml.DEVICE_MIG_ENABLE
	cut.GetMaxMigDeviceCountFunc = func() (int, nvml.Return) { return 7, nvml.SUCCESS }
	part := dgxa100.NewDevice(0)
	part.MemoryInfo = nvml.Memory{Total: 4864 << 20}
	part.GetUUIDFunc = func() (string, nvml.Return) { return "MIG-1", nvml.SUCCESS }
	part.GetNameFunc = func() (string, nvml.Return) { return "NVIDIA A100-SXM4-40GB MIG 1g.5gb", nvml.SUCCESS }
	cut.GetMigDeviceHandleByIndexFunc = func(place int) (nvml.Device, nvml.Return) {
		if place != 1 {
			return nil, nvml.ERROR_NOT_FOUND
		}
		return part, nvml.SUCCESS
	}
	s := b.source()
	got := found(t, s)
	d := got["MIG-1"]
	if _, whole := got[b.id(2)]; whole || len(got) != 8 || d.MemoryMB != 4864 || d.Link != "" || !slices.Equal(d.Profiles, []string{"1g.5gb"}) ||
		d.Attributes["card"] != string(b.id(2)) || d.Attributes["memory"] != "4864 MiB" || !d.Healthy {
		t.Errorf("found %+v, %s whole: %t", d, slices.Sorted(maps.Keys(got)), whole)
	}
	cut.GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) { return nvml.Memory{}, nvml.ERROR_GPU_IS_LOST }
	if d := found(t, s)["MIG-1"]; d.Healthy || d.MemoryMB != 4864 {
		t.Errorf("of a card that is lost: %+v", d)
	}
	if d, there := found(t, b.source())["MIG-1"]; there {
		t.Errorf("of a card that has never answered: %+v", d)
	}
}

// TestDevices_OfANodeWithoutTheLibraryAreNone: that is known, too.
func TestDevices_OfANodeWithoutTheLibraryAreNone(t *testing.T) {
	s := New(Config{Library: filepath.Join(t.TempDir(), "none.so")})
	if err := s.Measure(t.Context(), func(psg.AllocID, string, float64) {}); err == nil {
		t.Fatal("loaded a library that is not there")
	}
	if devices, known := s.Devices(); !known || len(devices) > 0 {
		t.Errorf("known %t, %+v", known, devices)
	}
}
