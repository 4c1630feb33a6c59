package agent

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// cpuMHz is what all CPUs of the node make together, as Nomad counts: each by
// its base clock or, where that is not told, the highest that it is made for, or
// what it runs at now. 0 where nothing is told.
func cpuMHz(proc, sys string) (mhz int64, cpus int) {
	now := clocksNow(proc)
	dirs, _ := filepath.Glob(filepath.Join(sys, "devices/system/cpu/cpu[0-9]*")) // the pattern is well formed
	for _, dir := range dirs {
		for _, name := range [...]string{"base_frequency", "cpuinfo_max_freq"} {
			if khz, ok := readNumber(filepath.Join(dir, "cpufreq", name)); ok && khz > 0 {
				mhz += khz / 1000
				cpus++
				break
			}
		}
	}
	if cpus > 0 && cpus >= len(now) {
		return mhz, cpus
	}
	total := 0.0
	for _, clock := range now {
		total += clock
	}
	return int64(total), len(now)
}

// clocksNow is the MHz of each CPU that the kernel lists.
func clocksNow(proc string) (mhz []float64) {
	text, err := os.ReadFile(filepath.Join(proc, "cpuinfo"))
	if err != nil {
		return nil
	}
	for line := range bytes.Lines(text) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		if string(bytes.TrimSpace(name)) != "cpu MHz" {
			continue
		}
		if clock, err := strconv.ParseFloat(string(bytes.TrimSpace(value)), 64); err == nil && clock > 0 && clock < 1e6 {
			mhz = append(mhz, clock)
		}
	}
	return mhz
}

func readNumber(path string) (int64, bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
	return n, err == nil
}
