package agent

import (
	"math"
	"strings"
	"testing"
	"time"
)

// finite fails if a metric has a value that is none.
func finite(t *testing.T, metrics []*metric, text []byte) {
	t.Helper()
	for _, m := range metrics {
		if m.set && (!known(m.value) || m.value < 0) {
			t.Errorf("%q gives %s = %v", text, m.name, m.value)
		}
	}
}

// FuzzReaders: no two texts after one another make a reader panic, or give what
// is not a number.
func FuzzReaders(f *testing.F) {
	for _, seed := range [][2]string{
		{"  8 0 sda 1 0 8 4 1 0 8 4 0 9 9\n", "  8 0 sda 2 0 16 8 2 0 16 8 0 19 9\n"},
		{"a\nb\neth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n", "a\nb\neth0: 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n"},
		{"Tcp: OutSegs RetransSegs\nTcp: 1 1\n", "Tcp: OutSegs RetransSegs\nTcp: 9 2\n"},
		{"TcpExt: ListenDrops TCPLostRetransmit TCPTimeouts\nTcpExt: 1 2 3\n", "TcpExt: ListenDrops TCPLostRetransmit TCPTimeouts\nTcpExt: 4 5\n"},
		{"some avg10=1.00 total=1\nfull avg10=0.00 total=0\n", "some avg10=1.00 total=9\n"},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]))
	}
	sys := newNode(f).sys
	f.Fuzz(func(t *testing.T, first, second []byte) {
		named := func(name string) *metric { return &metric{name: name} }
		for _, r := range []reader{
			newDisks(sys, named), newLinks(sys, named), newSegments(named), newLosses(named),
			&pressure{average: named("average"), some: named("some"), full: named("full")},
		} {
			for i, text := range [][]byte{first, second, first} {
				_ = r.read(time.Unix(100+int64(i), 0), text)
				finite(t, r.metrics(), text)
			}
		}
	})
}

// FuzzTaskFiles is the same for the files of control groups.
func FuzzTaskFiles(f *testing.F) {
	for _, seed := range []string{
		"123\n", "max\n", "usage_usec 1\nnr_periods 1\nnr_throttled 1\n", "hierarchical_memory_limit 1\ntotal_inactive_file 0\n",
		"inactive_file 3\n", "oom_kill 1\n", "8:0 Read 1\n8:0 Write 2\nTotal 3\n", "8:0 rbytes=1 wbytes=2 rios=3 wios=4\n",
		"some avg10=1.00 total=1\n", "18446744073709551615\n",
	} {
		f.Add([]byte(seed), []byte(seed))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		for _, files := range [][]taskFile{separateFiles, unifiedFiles} {
			k := newTask(&group{}, Cgroups{})
			for i, text := range [][]byte{first, second, first} {
				for _, file := range files {
					_ = file.read(k, time.Unix(100+int64(i), 0), text)
				}
				u := k.use
				for _, v := range []float64{
					u.CPUPercent, u.ThrottledPercent, u.MemoryMB, u.WorkingSetMB, u.MemoryLimitMB, u.ReadMBps, u.WriteMBps,
					u.ReadIOPS, u.WriteIOPS, u.CPUPressurePercent, u.MemoryPressurePercent, u.IOPressurePercent,
				} {
					if v < 0 {
						t.Errorf("%q, %q: %+v", first, second, u)
					}
				}
			}
		}
	})
}

// FuzzOwner: whatever stands in names, environments, directories and process
// files, an owner is a UUID, and nothing panics.
func FuzzOwner(f *testing.F) {
	f.Add(allocOf(1)+".web.scope", []byte("A=1\x00NOMAD_ALLOC_ID="+allocOf(1)+"\x00"))
	f.Add("web", []byte("1 (a) b) R 1 2 3 4 5 6 7 8 9 10 1 2 3 4 5\n"))
	f.Fuzz(func(t *testing.T, name string, text []byte) {
		for _, unified := range []bool{true, false} {
			if o, ok := ownerByName(name, unified); ok && (!isUUID(string(o.alloc)) || !strings.HasPrefix(name, string(o.alloc)+"."+o.task)) {
				t.Errorf("%q belongs to %+v", name, o)
			}
		}
		if alloc, _, ok := ownerByEnvironment(text); ok && !isUUID(alloc) {
			t.Errorf("%q belongs to %q", text, alloc)
		}
		for rest := text; len(rest) > 0; {
			before := len(rest)
			if _, rest = nextDirectory(rest); len(rest) >= before {
				t.Fatal("no progress")
			}
		}
		if ticks, err := parseTicks(text); err != nil && ticks != 0 {
			t.Errorf("%q gives %d, %v", text, ticks, err)
		}
	})
}

func TestKeyed_FindsWholeKeysOnly(t *testing.T) {
	text := []byte("inactive_file 1\nfile 2\nfile_mapped 3\nodd x\nlast 4")
	for key, want := range map[string]uint64{"file": 2, "last": 4, "inactive_file": 1} {
		if got, ok := keyed(text, key); !ok || got != want {
			t.Errorf("%s is %d, %v; want %d", key, got, ok, want)
		}
	}
	for _, key := range []string{"fil", "odd", "none"} {
		if got, ok := keyed(text, key); ok {
			t.Errorf("%s is %d", key, got)
		}
	}
}

func TestCounter_KnowsNothingAfterAStepBack(t *testing.T) {
	var c counter
	at := time.Unix(100, 0)
	for i, step := range []struct {
		value uint64
		want  float64
	}{{10, math.NaN()}, {30, 20}, {5, math.NaN()}, {6, 1}} {
		if got := c.rate(at.Add(time.Duration(i)*time.Second), step.value); got != step.want && !(math.IsNaN(got) && math.IsNaN(step.want)) {
			t.Errorf("reading %d gives %v, want %v", i, got, step.want)
		}
	}
}
