package sensor

import (
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/agent"
)

// write makes files of a tree.
func write(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// measure returns what a source puts.
func measure(t *testing.T, s agent.Source) map[string]float64 {
	t.Helper()
	got := map[string]float64{}
	err := s.Measure(t.Context(), func(_ psg.AllocID, metric string, value float64) {
		if _, twice := got[metric]; twice {
			t.Errorf("%s is put twice", metric)
		}
		got[metric] = value
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func same(t *testing.T, got, want map[string]float64) {
	t.Helper()
	for _, name := range append(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))...) {
		v, ok := got[name]
		if w, wanted := want[name]; ok != wanted || math.Abs(v-w) > 1e-6*max(1, math.Abs(w)) {
			t.Errorf("%s is %v (%v), want %v (%v)", name, v, ok, w, wanted)
		}
	}
}

// server is the chips of a server with two sockets.
func server() map[string]string {
	return map[string]string{
		"class/hwmon/hwmon0/name":           "coretemp\n",
		"class/hwmon/hwmon0/temp1_input":    "71000\n",
		"class/hwmon/hwmon0/temp1_label":    "Package id 0\n",
		"class/hwmon/hwmon0/temp2_input":    "68500\n",
		"class/hwmon/hwmon0/temp2_label":    "Core 0\n",
		"class/hwmon/hwmon0/temp2_max":      "100000\n",
		"class/hwmon/hwmon1/name":           "coretemp\n",
		"class/hwmon/hwmon1/temp1_input":    "-5250\n",
		"class/hwmon/hwmon1/temp1_label":    "Package id 1\n",
		"class/hwmon/hwmon2/name":           "nct6775\n",
		"class/hwmon/hwmon2/fan1_input":     "1180\n",
		"class/hwmon/hwmon2/fan10_input":    "0\n",
		"class/hwmon/hwmon2/temp7_input":    "-128000\n", // no probe
		"class/hwmon/hwmon2/temp8_input":    "warm\n",
		"class/hwmon/hwmon3/name":           "power meter/ACPI\n",
		"class/hwmon/hwmon3/power1_average": "312500000\n",
		"class/hwmon/hwmon3/power1_input":   "1\n",
		"class/hwmon/hwmon3/power2_input":   "2500000\n",
		"class/hwmon/hwmon3/power2_label":   "PSU A\n",
	}
}

func TestHwmon_TellsOfEachSensor(t *testing.T) {
	sys := t.TempDir()
	write(t, sys, server())
	same(t, measure(t, NewHwmon(sys)), map[string]float64{
		"hottest_celsius": 71,
		"sensor/coretemp/package_id_0/temperature_celsius":   71,
		"sensor/coretemp/core_0/temperature_celsius":         68.5,
		"sensor/coretemp-2/package_id_1/temperature_celsius": -5.25,
		"sensor/nct6775/fan1/fan_rpm":                        1180,
		"sensor/nct6775/fan10/fan_rpm":                       0,
		"sensor/power_meter_acpi/power1/power_watts":         312.5,
		"sensor/power_meter_acpi/psu_a/power_watts":          2.5,
	})
}

func TestHwmon_FailsWhereThereIsNothing(t *testing.T) {
	sys := t.TempDir()
	put := func(_ psg.AllocID, metric string, _ float64) { t.Errorf("put %s", metric) }
	if err := NewHwmon(sys).Measure(t.Context(), put); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without the directory: %v", err)
	}
	write(t, sys, map[string]string{"class/hwmon/hwmon0/name": "empty\n"})
	if err := NewHwmon(sys).Measure(t.Context(), put); !errors.Is(err, errNone) {
		t.Errorf("without a sensor: %v", err)
	}
}

// healthLog is the log of a drive that is used.
func healthLog() []byte {
	log := make([]byte, healthSize)
	log[0] = 0b101
	binary.LittleEndian.PutUint16(log[1:], 273+47)
	log[3], log[4], log[5] = 98, 10, 101
	binary.LittleEndian.PutUint64(log[32:], 2_000_000)
	binary.LittleEndian.PutUint64(log[48:], 1_000_000)
	binary.LittleEndian.PutUint64(log[128:], 8760)
	binary.LittleEndian.PutUint64(log[144:], 12)
	binary.LittleEndian.PutUint64(log[160:], 3)
	return log
}

func drives(t *testing.T, log func(string) ([]byte, error)) *NVMe {
	t.Helper()
	sys := t.TempDir()
	write(t, sys, map[string]string{"class/nvme/nvme0/model": "A\n", "class/nvme/nvme1/model": "B\n"})
	n := NewNVMe(sys, "/dev")
	n.log = log
	return n
}

func TestNVMe_TellsTheHealthOfEachDrive(t *testing.T) {
	n := drives(t, func(device string) ([]byte, error) {
		if device != "/dev/nvme1" {
			return nil, os.ErrPermission // fails no other
		}
		return healthLog(), nil
	})
	same(t, measure(t, n), map[string]float64{
		"nvme/nvme1/critical_warnings": 5, "nvme/nvme1/temperature_celsius": 47, "nvme/nvme1/spare_percent": 98,
		"nvme/nvme1/spare_threshold_percent": 10, "nvme/nvme1/worn_percent": 101, "nvme/nvme1/read_gb": 1024, "nvme/nvme1/written_gb": 512,
		"nvme/nvme1/powered_hours": 8760, "nvme/nvme1/unsafe_shutdowns": 12, "nvme/nvme1/media_errors": 3,
	})
}

func TestNVMe_FailsWhenNoDriveTells(t *testing.T) {
	put := func(_ psg.AllocID, metric string, _ float64) { t.Errorf("put %s", metric) }
	hot, short := healthLog(), healthLog()[:511]
	binary.LittleEndian.PutUint16(hot[1:], 9999)
	for _, log := range [][]byte{hot, short} {
		n := drives(t, func(string) ([]byte, error) { return log, nil })
		if err := n.Measure(t.Context(), put); err == nil || !strings.Contains(err.Error(), "health of nvme1: the health log") {
			t.Errorf("the error is %v", err)
		}
	}
	if err := NewNVMe(t.TempDir(), "/dev").Measure(t.Context(), put); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without the class: %v", err)
	}
}

// The kernel takes the command by its size, and refuses one on what is no drive.
func TestReadHealth_SpeaksTheKernelsLanguage(t *testing.T) {
	if size := unsafe.Sizeof(adminCommand{}); size != ioctlAdmin>>16&0x3fff {
		t.Errorf("the command has %d bytes, and the ioctl says %d", size, ioctlAdmin>>16&0x3fff)
	}
	for name, offset := range map[string][2]uintptr{
		"nsid": {unsafe.Offsetof(adminCommand{}.namespace), 4}, "addr": {unsafe.Offsetof(adminCommand{}.address), 24},
		"data_len": {unsafe.Offsetof(adminCommand{}.length), 36}, "cdw10": {unsafe.Offsetof(adminCommand{}.dword10), 40},
		"timeout_ms": {unsafe.Offsetof(adminCommand{}.timeoutMs), 64},
	} {
		if offset[0] != offset[1] {
			t.Errorf("%s is at %d, want %d", name, offset[0], offset[1])
		}
	}
	if _, err := readHealth("/dev/null"); err == nil || !strings.Contains(err.Error(), "ask /dev/null") {
		t.Errorf("what is no drive gives %v", err)
	}
}

// docs/agent.md names every metric.
func TestDoc_ListsEveryMetric(t *testing.T) {
	text, err := os.ReadFile("../../docs/agent.md")
	if err != nil {
		t.Fatal(err)
	}
	sys := t.TempDir()
	write(t, sys, server())
	all := measure(t, NewHwmon(sys))
	maps.Copy(all, measure(t, drives(t, func(string) ([]byte, error) { return healthLog(), nil })))
	device := regexp.MustCompile(`^(sensor/).*/|^(nvme/).*/`)
	for metric := range all {
		name := device.ReplaceAllStringFunc(metric, func(found string) string {
			if strings.HasPrefix(found, "sensor/") {
				return "sensor/CHIP/LABEL/"
			}
			return "nvme/NAME/"
		})
		if !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("docs/agent.md does not name %s", name)
		}
	}
}

func FuzzParseHealth(f *testing.F) {
	f.Add(healthLog())
	f.Add(make([]byte, healthSize))
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, log []byte) {
		h, err := parseHealth(log)
		if err == nil && (h.celsius < -100 || h.celsius > 250 || h.spare > 100 || h.hours < 0) {
			t.Errorf("%+v", h)
		}
	})
}

func FuzzHwmon(f *testing.F) {
	f.Add("71000\n", "Package id 0")
	f.Add("-128000", "../../etc")
	f.Add("9223372036854775808", "\x00é")
	f.Fuzz(func(t *testing.T, value, label string) {
		if v, ok := parse(value, kinds[0]); ok && (v <= -100 || v >= 250) {
			t.Errorf("%q is %v", value, v)
		}
		if w := word(label); strings.ContainsAny(w, "/ \n") || len(w) > maxText {
			t.Errorf("%q became %q", label, w)
		}
	})
}
