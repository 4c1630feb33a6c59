package agent

import (
	"os"
	"path/filepath"
	"testing"
)

func TestCPUMHz_TakesTheBaseClockThenTheHighestThenThePresentOne(t *testing.T) {
	proc, sys := t.TempDir(), t.TempDir()
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if mhz, cpus := cpuMHz(proc, sys); mhz != 0 || cpus != 0 {
		t.Errorf("%d CPUs of %d MHz on a node that tells nothing", cpus, mhz)
	}
	write(filepath.Join(proc, "cpuinfo"), "processor\t: 0\ncpu MHz\t\t: 2799.998\n\nprocessor\t: 1\ncpu MHz\t\t: 1200.502\n")
	if mhz, cpus := cpuMHz(proc, sys); mhz != 4000 || cpus != 2 {
		t.Errorf("%d CPUs of %d MHz, want 2 of 4000", cpus, mhz)
	}
	write(filepath.Join(sys, "devices/system/cpu/cpu0/cpufreq/base_frequency"), "2600000\n")
	write(filepath.Join(sys, "devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"), "4000000\n")
	if mhz, cpus := cpuMHz(proc, sys); mhz != 4000 || cpus != 2 {
		t.Errorf("%d CPUs of %d MHz, want 2 of 4000 while only one tells its base clock", cpus, mhz)
	}
	write(filepath.Join(sys, "devices/system/cpu/cpu1/cpufreq/cpuinfo_max_freq"), "4000000\n")
	if mhz, cpus := cpuMHz(proc, sys); mhz != 6600 || cpus != 2 {
		t.Errorf("%d CPUs of %d MHz, want 2 of 6600", cpus, mhz)
	}
}
