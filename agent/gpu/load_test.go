//go:build cgo

package gpu

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/psgrid/psg"
)

// compile makes a library of testdata/nvml.c, to be loaded for real.
func compile(t *testing.T, flags ...string) string {
	t.Helper()
	compiler, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("SKIPPED: no C compiler, loading a library was not tested")
	}
	library := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	args := append(flags, "-shared", "-fPIC", "-o", library, "testdata/nvml.c")
	if out, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
		t.Fatalf("compile: %v\n%s", err, out)
	}
	return library
}

func TestNew_LoadsTheLibrary(t *testing.T) {
	proc := t.TempDir()
	own := filepath.Join(proc, strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(own, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(own, "cgroup"), []byte("0::/nomad.slice/share.slice/"+training+".main.scope\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := New(Config{Library: compile(t), Proc: proc})
	defer s.stop()
	expect(t, measure(t, s), map[string]float64{
		"gpu_count": 2, "gpu_memory_total_mb": 160 * 1024, "gpu/1/busy_percent": 41, "gpu/1/memory_busy_percent": 7, "gpu/1/power_watts": 70,
		"gpu/1/temperature_celsius": 35, "gpu/1/ecc_corrected": 2, "gpu/1/ecc_uncorrected": 1, "gpu/1/mig": 0,
		"gpu/1/nvlinks": 4, "gpu/1/nvlink_cards": 1, "gpu/1/near_cards": 0, "gpu/1/island": 0,
		training + " gpu_memory_mb": 512, training + " gpu_busy_percent": 33,
	})
	devices, known := s.Devices()
	if !known || len(devices) != 2 || devices[0].ID != "GPU-sim-0" || devices[0].Model != "NVIDIA A100-SXM4-80GB" ||
		devices[0].MemoryMB != 80*1024 || devices[0].Link != "nvlink-0" || !devices[0].Healthy || devices[1].Healthy {
		t.Errorf("known %t, %+v", known, devices)
	}
}

// A function that is missing would end the program when it is called.
func TestNew_RefusesALibraryThatLacksFunctions(t *testing.T) {
	s := New(Config{Library: compile(t, "-DOLD")})
	for range 2 {
		err := s.Measure(t.Context(), func(_ psg.AllocID, metric string, _ float64) { t.Errorf("put %s", metric) })
		if err == nil || !strings.Contains(err.Error(), "too old") || !strings.Contains(err.Error(), "nvmlDeviceGetMigMode") {
			t.Errorf("the error is %v", err)
		}
	}
}
