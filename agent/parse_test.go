package agent

import (
	"math"
	"strings"
	"testing"
)

func TestParse_ReadsWhatTheKernelWrites(t *testing.T) {
	for name, test := range map[string]struct {
		parse parser
		text  string
		want  []float64
	}{
		"meminfo": {parseMemory, "MemTotal:       24684092 kB\nMemFree:        20713820 kB\nMemAvailable:   12342046 kB\nBuffers: 1 kB\nSwapTotal: 4096 kB\nSwapFree: 1024 kB\n", []float64{12052.779296875, 12052.779296875, 3}},
		"loadavg": {parseLoad, "5.79 2.79 1.42 1/234 5678\n", []float64{5.79}},
	} {
		values := make([]float64, len(test.want))
		ready, err := test.parse([]byte(test.text), values)
		if err != nil || !ready {
			t.Errorf("%s: %v, %v", name, ready, err)
		}
		for i, want := range test.want {
			if math.Abs(values[i]-want) > 1e-9 {
				t.Errorf("%s: value %d is %v, want %v", name, i, values[i], want)
			}
		}
	}
}

func TestCPU_SharesSinceTheReadingBefore(t *testing.T) {
	var c cpuTimes
	values := make([]float64, 3)
	for _, step := range []struct {
		text        string
		ready       bool
		busy, steal float64
	}{
		{"cpu  1000 0 0 5000 100 0 0 0 0 0\ncpu0 1 1\n", false, 0, 0},
		{"cpu  1030 0 10 5040 110 0 0 10 30 0\n", true, 50, 10},
		{"cpu  1030 0 10 5040 110 0 0 10 30 0\n", false, 0, 0},  // nothing passed
		{"cpu  1130 0 10 5040 100 0 0 10 30 0\n", true, 100, 0}, // iowait stepped back
		{"cpu  1130 0 10 5140 150 0 0 10 30 0\n", true, 0, 0},
	} {
		ready, err := c.parse([]byte(step.text), values)
		if err != nil || ready != step.ready {
			t.Fatalf("%q: ready %v, %v", step.text, ready, err)
		}
		if ready && (values[0] != step.busy || values[1] != step.steal) {
			t.Errorf("%q: busy %v, steal %v; want %v, %v", step.text, values[0], values[1], step.busy, step.steal)
		}
	}
}

func TestParse_RefusesOtherText(t *testing.T) {
	for name, test := range map[string]struct {
		parse parser
		texts []string
	}{
		"stat":    {new(cpuTimes).parse, []string{"", "cpu0 1 2 3 4 5 6 7 8\n", "cpu  1 2 3 4 5 6 7\n", "cpu  1 2 3 4 5 6 7 -8\n", "cpu  18446744073709551616 0 0 0 0 0 0 0\n"}},
		"meminfo": {parseMemory, []string{"", "MemTotal: 5 kB\n", "MemTotal: 5 kB\nMemAvailable: 6 kB\n", "MemTotal: 5\nMemAvailable: 4\n", "MemTotal: 5 kB\nXMemAvailable: 4 kB\n", "MemTotal: 5 kB\nMemAvailable: 4 k", "MemTotal: 5 kB\nMemAvailable: 4 kB\n", "MemTotal: 5 kB\nMemAvailable: 4 kB\nSwapTotal: 1 kB\nSwapFree: 2 kB\n"}},
		"loadavg": {parseLoad, []string{"", "5", "5.", "x.1 ", "-1.0 ", "1.0", "1. 0 "}},
	} {
		for _, text := range test.texts {
			if ready, err := test.parse([]byte(text), make([]float64, 3)); err == nil || ready {
				t.Errorf("%s: %q was accepted", name, text)
			}
		}
	}
}

// FuzzParse: no text makes a parser panic, or give what is not a number of the
// range it has.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"cpu  1000 0 0 5000 100 0 0 0 0 0\n", "MemTotal: 5 kB\nMemAvailable: 4 kB\nSwapTotal: 1 kB\nSwapFree: 1 kB\n",
		"5.79 2.79 1.42 1/234 5678\n", "0." + strings.Repeat("0", 400) + "1 ",
	} {
		f.Add([]byte(seed), []byte(seed))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		for i, parse := range []parser{new(cpuTimes).parse, parseMemory, parseLoad} {
			for _, text := range [][]byte{first, second} {
				values := make([]float64, 3)
				if ready, err := parse(text, values); err != nil || !ready {
					continue
				}
				for _, v := range values {
					if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 || i == 0 && v > 100.0001 {
						t.Errorf("parser %d: %q gives %v", i, text, v)
					}
				}
			}
		}
	})
}
