//go:build cgo

package gpu

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"

	"github.com/psgrid/psg"
)

const (
	training = "0c3f9f1e-5a7b-4c1d-9f00-000000000001"
	serving  = "0c3f9f1e-5a7b-4c1d-9f00-000000000002"
)

// box is NVIDIA's simulation of a DGX A100, with what it lacks: eight cards, two
// PCIe roots, and NVLink between all of them.
type box struct {
	*server.Server
	proc, sys string
}

func newBox(t *testing.T) *box {
	b := &box{dgxa100.New(), t.TempDir(), t.TempDir()}
	for i := range b.Devices {
		b.furnish(i)
	}
	return b
}

func (b *box) device(i int) *server.Device { return b.Devices[i].(*server.Device) }

func (b *box) furnish(i int) {
	d := b.device(i)
	d.MemoryInfo.Used = 1 << 30
	d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) {
		return nvml.Utilization{Gpu: uint32(10 * i), Memory: 5}, nvml.SUCCESS
	}
	d.GetPowerUsageFunc = func() (uint32, nvml.Return) { return 250_500, nvml.SUCCESS }
	d.GetTemperatureFunc = func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 61, nvml.SUCCESS }
	d.GetTotalEccErrorsFunc = func(kind nvml.MemoryErrorType, _ nvml.EccCounterType) (uint64, nvml.Return) {
		return 7 * uint64(1-kind), nvml.SUCCESS
	}
	d.GetRemappedRowsFunc = func() (int, int, bool, bool, nvml.Return) { return 1, 0, false, false, nvml.SUCCESS }
	d.GetMaxClockInfoFunc = func(kind nvml.ClockType) (uint32, nvml.Return) { return 1000 + uint32(kind), nvml.SUCCESS }
	d.GetPowerManagementLimitFunc = func() (uint32, nvml.Return) { return 400_000, nvml.SUCCESS }
	d.GetPciInfoFunc = func() (pci nvml.PciInfo, code nvml.Return) {
		for at, c := range []byte(fmt.Sprintf("00000000:%02X:00.0", 0x3a+i)) {
			pci.BusId[at] = int8(c)
		}
		return pci, nvml.SUCCESS
	}
	d.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) { return nil, nvml.SUCCESS }
	d.GetGraphicsRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) { return nil, nvml.ERROR_NOT_SUPPORTED }
	d.GetProcessUtilizationFunc = func(uint64) ([]nvml.ProcessUtilizationSample, nvml.Return) { return nil, nvml.ERROR_NOT_FOUND }
	d.GetNvLinkStateFunc = func(link int) (nvml.EnableState, nvml.Return) {
		if link >= 12 {
			return 0, nvml.ERROR_INVALID_ARGUMENT
		}
		return nvml.FEATURE_ENABLED, nvml.SUCCESS
	}
	d.GetTopologyCommonAncestorFunc = func(other nvml.Device) (nvml.GpuTopologyLevel, nvml.Return) {
		if j, _ := other.GetIndex(); j/4 != i/4 {
			return nvml.TOPOLOGY_SYSTEM, nvml.SUCCESS
		}
		return nvml.TOPOLOGY_HOSTBRIDGE, nvml.SUCCESS
	}
	d.GetP2PStatusFunc = func(nvml.Device, nvml.GpuP2PCapsIndex) (nvml.GpuP2PStatus, nvml.Return) {
		return nvml.P2P_STATUS_OK, nvml.SUCCESS
	}
}

// process makes a process of an allocation.
func (b *box) process(t *testing.T, pid int, alloc string) {
	dir := filepath.Join(b.proc, strconv.Itoa(pid))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"environ":   "NOMAD_ALLOC_ID=" + alloc + "\x00",
		"mountinfo": "901 900 254:1 /nomad/alloc/" + alloc + "/alloc /alloc rw,relatime - ext4 /dev/vda1 rw\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func (b *box) source() *Source { return newSource(Config{Proc: b.proc, Sys: b.sys}, b.Server) }

// measure returns what a source puts, "alloc metric" by value.
func measure(t *testing.T, s *Source) map[string]float64 {
	t.Helper()
	got := map[string]float64{}
	err := s.Measure(t.Context(), func(alloc psg.AllocID, metric string, value float64) {
		key := strings.TrimSpace(fmt.Sprintf("%s %s", alloc, metric))
		if _, twice := got[key]; twice {
			t.Errorf("%s is put twice", key)
		}
		got[key] = value
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func expect(t *testing.T, got map[string]float64, want map[string]float64) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if v, ok := got[name]; !ok || v != want[name] {
			t.Errorf("%s is %v, %v; want %v", name, v, ok, want[name])
		}
	}
}

func TestMeasure_TellsOfEachCardAndOfAll(t *testing.T) {
	got := measure(t, newBox(t).source())
	expect(t, got, map[string]float64{
		"gpu_count": 8, "gpu_busy_percent": 35, "gpu_memory_used_mb": 8 * 1024, "gpu_memory_total_mb": 8 * 40 * 1024, "gpu_power_watts": 8 * 250.5,
		"gpu/3/answers": 1, "gpu/3/busy_percent": 30, "gpu/3/memory_busy_percent": 5, "gpu/3/memory_used_mb": 1024, "gpu/3/memory_total_mb": 40 * 1024,
		"gpu/3/power_watts": 250.5, "gpu/3/temperature_celsius": 61, "gpu/3/ecc_corrected": 7, "gpu/3/ecc_uncorrected": 0, "gpu/3/mig": 0,
		"gpu/3/nvlinks": 12, "gpu/3/nvlink_cards": 7, "gpu/3/near_cards": 3, "gpu/3/island": 0,
	})
}

func TestMeasure_FindsIslands(t *testing.T) {
	b := newBox(t)
	// 1-3-5 in a chain, 6-7; the others alone.
	linked := map[[2]int]bool{{1, 3}: true, {3, 5}: true, {6, 7}: true}
	for i := range b.Devices {
		b.device(i).GetP2PStatusFunc = func(other nvml.Device, _ nvml.GpuP2PCapsIndex) (nvml.GpuP2PStatus, nvml.Return) {
			j, _ := other.GetIndex()
			if linked[[2]int{min(i, j), max(i, j)}] {
				return nvml.P2P_STATUS_OK, nvml.SUCCESS
			}
			return nvml.P2P_STATUS_GPU_NOT_SUPPORTED, nvml.SUCCESS
		}
	}
	got := measure(t, b.source())
	for i, want := range []float64{0, 1, 2, 1, 4, 1, 6, 6} {
		expect(t, got, map[string]float64{card(i, "island"): want})
	}
	expect(t, got, map[string]float64{"gpu/3/nvlink_cards": 2, "gpu/5/nvlink_cards": 1, "gpu/0/nvlink_cards": 0})
}

func TestMeasure_CountsProcessesForTheirAllocations(t *testing.T) {
	b := newBox(t)
	b.process(t, 100, training)
	b.process(t, 101, training)
	b.process(t, 102, serving)
	first, second := b.device(0), b.device(1)
	first.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
		return []nvml.ProcessInfo{{Pid: 100, UsedGpuMemory: 512 << 20}, {Pid: 102, UsedGpuMemory: unknownMemory}, {Pid: 999, UsedGpuMemory: 1 << 30}}, nvml.SUCCESS
	}
	first.GetGraphicsRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
		return []nvml.ProcessInfo{{Pid: 100, UsedGpuMemory: 512 << 20}}, nvml.SUCCESS
	}
	var asked []uint64
	first.GetProcessUtilizationFunc = func(since uint64) ([]nvml.ProcessUtilizationSample, nvml.Return) {
		asked = append(asked, since)
		return []nvml.ProcessUtilizationSample{
			{Pid: 100, TimeStamp: 20, SmUtil: 60}, {Pid: 100, TimeStamp: 10, SmUtil: 99}, {Pid: 102, TimeStamp: 30, SmUtil: 4_000_000_000},
		}, nvml.SUCCESS
	}
	second.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
		return []nvml.ProcessInfo{{Pid: 101, UsedGpuMemory: 256 << 20}}, nvml.SUCCESS
	}
	second.GetProcessUtilizationFunc = func(uint64) ([]nvml.ProcessUtilizationSample, nvml.Return) {
		return []nvml.ProcessUtilizationSample{{Pid: 101, TimeStamp: 20, SmUtil: 80}}, nvml.SUCCESS
	}
	s := b.source()
	got := measure(t, s)
	expect(t, got, map[string]float64{
		training + " gpu_memory_mb": 768, training + " gpu_busy_percent": 140,
		serving + " gpu_memory_mb": 0, serving + " gpu_busy_percent": 0,
	})
	measure(t, s)
	if !slices.Equal(asked, []uint64{0, 30}) {
		t.Errorf("asked for samples since %v", asked)
	}
}

func TestMeasure_TellsOfCardsThatAreCut(t *testing.T) {
	b := newBox(t)
	cut := b.device(2)
	cut.MigMode = nvml.DEVICE_MIG_ENABLE
	cut.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{}, nvml.ERROR_NOT_SUPPORTED }
	cut.GetMaxMigDeviceCountFunc = func() (int, nvml.Return) { return 7, nvml.SUCCESS }
	part := dgxa100.NewDevice(0)
	part.MemoryInfo = nvml.Memory{Total: 5 << 30, Used: 1 << 20}
	cut.GetMigDeviceHandleByIndexFunc = func(place int) (nvml.Device, nvml.Return) {
		if place != 1 && place != 4 {
			return nil, nvml.ERROR_NOT_FOUND
		}
		return part, nvml.SUCCESS
	}
	got := measure(t, b.source())
	expect(t, got, map[string]float64{
		"gpu/2/mig": 1, "gpu/2/mig_instances": 2, "gpu/2/mig/4/memory_used_mb": 1, "gpu/2/mig/4/memory_total_mb": 5 * 1024,
		"gpu_busy_percent": (280. - 20) / 7,
	})
	for _, name := range []string{"gpu/2/busy_percent", "gpu/2/mig/0/memory_used_mb"} {
		if _, ok := got[name]; ok {
			t.Errorf("there is a %s", name)
		}
	}
}

func TestMeasure_GoesOnWhenACardIsLost(t *testing.T) {
	b := newBox(t)
	lost := b.device(1)
	lost.GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) { return nvml.Memory{}, nvml.ERROR_GPU_IS_LOST }
	lost.GetMigModeFunc = func() (int, int, nvml.Return) { return 0, 0, nvml.ERROR_GPU_IS_LOST }
	handle := b.DeviceGetHandleByIndexFunc
	b.DeviceGetHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		if i == 5 {
			return nil, nvml.ERROR_GPU_IS_LOST
		}
		return handle(i)
	}
	got := measure(t, b.source())
	expect(t, got, map[string]float64{
		"gpu_count": 8, "gpu/0/answers": 1, "gpu/1/answers": 0, "gpu/5/answers": 0, "gpu/6/answers": 1, "gpu_memory_used_mb": 6 * 1024, "gpu/6/nvlink_cards": 6,
	})
}

func TestMeasure_LoadsTheLibraryAnewAfterAFailure(t *testing.T) {
	b := newBox(t)
	s := b.source()
	measure(t, s)
	loaded, count := 0, b.DeviceGetCountFunc
	b.InitFunc = func() nvml.Return { loaded++; return nvml.SUCCESS }
	b.DeviceGetCountFunc = func() (int, nvml.Return) { return 0, nvml.ERROR_DRIVER_NOT_LOADED }
	if err := s.Measure(t.Context(), func(psg.AllocID, string, float64) {}); err == nil || !strings.Contains(err.Error(), "driver is not loaded") {
		t.Errorf("the error is %v", err)
	}
	b.DeviceGetCountFunc = count
	measure(t, s)
	if loaded != 1 {
		t.Errorf("loaded %d times after the failure, want once", loaded)
	}
}

func TestNew_FailsWithoutTheLibrary(t *testing.T) {
	s := New(Config{Library: filepath.Join(t.TempDir(), "libnvidia-ml.so.1")})
	for range 2 {
		err := s.Measure(t.Context(), func(_ psg.AllocID, metric string, _ float64) { t.Errorf("put %s", metric) })
		if err == nil || !strings.Contains(err.Error(), "no such library") {
			t.Errorf("the error is %v", err)
		}
	}
}

// docs/agent.md names every metric.
func TestDoc_ListsEveryMetric(t *testing.T) {
	text, err := os.ReadFile("../../docs/agent.md")
	if err != nil {
		t.Fatal(err)
	}
	b := newBox(t)
	b.process(t, 100, training)
	d := b.device(0)
	d.MigMode = nvml.DEVICE_MIG_ENABLE
	d.GetMaxMigDeviceCountFunc = func() (int, nvml.Return) { return 1, nvml.SUCCESS }
	d.GetMigDeviceHandleByIndexFunc = func(int) (nvml.Device, nvml.Return) { return dgxa100.NewDevice(0), nvml.SUCCESS }
	d.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) { return []nvml.ProcessInfo{{Pid: 100}}, nvml.SUCCESS }
	number := regexp.MustCompile(`/\d+/`)
	for key := range measure(t, b.source()) {
		name := number.ReplaceAllString(key[strings.LastIndex(key, " ")+1:], "/N/")
		if !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("docs/agent.md does not name %s", name)
		}
	}
}
